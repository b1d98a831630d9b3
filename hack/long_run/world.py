"""The resources of a long run: what they should lead to, random edits, and what differs from that in the end."""
import base64
import collections
import itertools
import random

from measuring import wait_until

GROUP, VERSION = "long.example.com", "v1"
KINDS = {"Web": "webs", "Setting": "settings", "Migration": "migrations", "Account": "accounts", "Gadget": "gadgets"}
MERGE = "application/merge-patch+json"
MAPS, SERVICES, SECRETS, ACCOUNTS, DEPLOYMENTS = COLLECTIONS = (
    "/api/v1/namespaces/{}/configmaps", "/api/v1/namespaces/{}/services", "/api/v1/namespaces/{}/secrets",
    "/api/v1/namespaces/{}/serviceaccounts", "/apis/apps/v1/namespaces/{}/deployments")
# A value's expected place in an object, as `content` returns it.
CONTENT = {
    MAPS: lambda o: o["data"],
    SERVICES: lambda o: o["spec"]["ports"][0]["targetPort"],
    SECRETS: lambda o: o["data"],
    ACCOUNTS: lambda o: o["metadata"].get("annotations", {}).get("wanted"),
    DEPLOYMENTS: lambda o: o["spec"]["revisionHistoryLimit"],
}
# A foreign edit of each collection's objects.
SPOILED = {
    MAPS: {"data": {"wanted": "spoiled"}},
    SERVICES: {"spec": {"ports": [{"port": 80, "targetPort": 9999}]}},
    SECRETS: {"data": {"password": None}},
    ACCOUNTS: {"metadata": {"annotations": {"wanted": "spoiled"}}},
    DEPLOYMENTS: {"spec": {"revisionHistoryLimit": 99}},
}


class Resource:
    def __init__(self, kind, name):
        self.kind, self.name, self.wanted, self.broken = kind, name, 0, False

    def body(self):
        metadata = {"name": self.name}
        return {"apiVersion": f"{GROUP}/{VERSION}", "kind": self.kind, "metadata": metadata, "spec": self.spec()}

    def spec(self):
        return {"wanted": str(self.wanted), **({"broken": self.broken} if self.kind == "Gadget" else {})}

    def objects(self, sourced):
        """The objects that the charts make of it, by collection, with their content."""
        text = str(self.wanted)
        extra = {"sourced": sourced} if self.kind == "Account" else {}
        yield MAPS, {"wanted": text, **extra}
        if self.kind == "Web":
            yield SERVICES, 8000 + self.wanted % 100
            yield DEPLOYMENTS, self.wanted % 10
        if self.kind == "Setting":
            yield SECRETS, {"password": base64.b64encode(text.encode()).decode()}
        if self.kind == "Gadget":
            yield ACCOUNTS, text


class World:
    """One namespace's resources, a fifth of each kind."""

    def __init__(self, server, namespace, number, seed):
        self.server, self.namespace, self.random = server, namespace, random.Random(f"{seed} {namespace}")
        kinds = itertools.cycle(KINDS)
        self.resources = [Resource(kind, f"{kind.lower()}-{at}") for at, kind in zip(range(number), kinds)]
        self.gone, self.sourced, self.edits = [], 0, collections.Counter()

    def path(self, resource):
        return f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{KINDS[resource.kind]}"

    def create(self):
        self.server.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.server.call("POST", SECRETS.format(self.namespace), {"metadata": {"name": "source"}, "stringData": {"sourced": "0"}})
        self.server.each(self.resources, lambda r: self.server.call("POST", self.path(r), r.body()))

    def edit_until(self, stop, per_second):
        while not stop.wait(1 / per_second):
            self.edit()

    def edit(self):
        kinds = {"spec": 60, "spoil": 15, "remove": 10, "delete": 6, "recreate": 8, "source": 0.3}
        kind = self.random.choices(list(kinds), kinds.values())[0]
        if getattr(self, kind)():
            self.edits[kind] += 1

    def spec(self):
        resource = self.random.choice(self.resources)
        resource.wanted += 1
        resource.broken = resource.kind == "Gadget" and self.random.random() < 0.3
        return self.patch(resource)

    def patch(self, resource):
        status, _ = self.server.call("PATCH", f"{self.path(resource)}/{resource.name}", {"spec": resource.spec()}, MERGE)
        return status == 200

    def spoil(self):
        path, collection = self.random_object()
        return self.server.call("PATCH", path, SPOILED[collection], MERGE)[0] == 200

    def remove(self):
        return self.server.call("DELETE", self.random_object()[0])[0] == 200

    def random_object(self):
        resource = self.random.choice(self.resources)
        collection = self.random.choice([collection for collection, _ in resource.objects("")])
        return f"{collection.format(self.namespace)}/{resource.name}", collection

    def delete(self):
        resource = self.resources.pop(self.random.randrange(len(self.resources)))
        self.gone.append(resource)
        return self.server.call("DELETE", f"{self.path(resource)}/{resource.name}")[0] == 200

    def recreate(self):
        return bool(self.gone) and self.create_again(self.random.choice(self.gone))

    def create_again(self, resource):
        resource.broken = False
        # 409: its finalizer still holds it.
        if self.server.call("POST", self.path(resource), resource.body())[0] != 201:
            return False
        self.gone.remove(resource)
        self.resources.append(resource)
        return True

    def source(self):
        """An edit of a Secret that a fifth of the resources take values from."""
        self.sourced += 1
        source = {"stringData": {"sourced": str(self.sourced)}}
        return self.server.call("PATCH", f"{SECRETS.format(self.namespace)}/source", source, MERGE)[0] == 200

    def settle(self):
        """Ends every failure, and creates again what is deleted, but for a few that stay away."""
        for resource in [resource for resource in self.resources if resource.broken]:
            resource.broken = False
            self.patch(resource)
        for resource in self.gone[3:]:
            wait_until(60, lambda: self.create_again(resource), 1)

    def expected(self):
        return {
            f"{collection.format(self.namespace)}/{resource.name}": content
            for resource in self.resources
            for collection, content in resource.objects(str(self.sourced))
        }

    def found(self):
        return {
            f"{collection.format(self.namespace)}/{item['metadata']['name']}": CONTENT[collection](item)
            for collection in COLLECTIONS
            for item in self.server.items(collection.format(self.namespace), "&labelSelector=long-run")
        }

    def differences(self):
        """What differs: wrong or missing objects, orphans, and resources whose status is wrong."""
        expected, found = self.expected(), self.found()
        wrong = [f"{path}: {found.get(path)}, not {content}" for path, content in expected.items() if found.get(path) != content]
        return {"wrong": wrong, "orphans": sorted(found.keys() - expected.keys()), "status": list(self.wrong_statuses())}

    def wrong_statuses(self):
        names = {resource.name for resource in self.resources}
        for plural in KINDS.values():
            for item in self.server.items(f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/{plural}"):
                metadata, status = item["metadata"], item.get("status", {})
                true = {condition["type"] for condition in status.get("conditions", []) if condition["status"] == "True"}
                is_current = status.get("observedGeneration") == metadata["generation"]
                if metadata["name"] not in names or not is_current or "Deployed" not in true or true & {"ReleaseFailed", "Irreconcilable"}:
                    yield f"{metadata['name']}: generation {metadata['generation']}, {status}"

    def wait_until_equal(self, limit):
        """Returns what still differs after so many seconds."""
        wait_until(limit, lambda: not any(self.differences().values()), 3)
        return self.differences()

    def wrong_records(self, history):
        """Releases without exactly one deployed revision, with too many, or without a resource."""
        deployed, all_revisions = collections.Counter(), collections.Counter()
        for record in self.server.items(SECRETS.format(self.namespace), "&fieldSelector=type=helm.sh/release.v1"):
            labels = record["metadata"]["labels"]
            all_revisions[labels["name"]] += 1
            deployed[labels["name"]] += labels["status"] == "deployed"
        names = {resource.name for resource in self.resources}
        wrong = lambda name: deployed[name] != 1 or all_revisions[name] > history or name not in names
        return [f"{name}: {deployed[name]} of {all_revisions[name]} deployed" for name in names | all_revisions.keys() if wrong(name)]
