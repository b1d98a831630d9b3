"""The release of one custom resource: what it holds, how it equals Helm's, an edit and its deletion."""
import collections
import json
import os
import re
import tempfile

from moving.changes import changes, merged
from moving.kubectl import HELM, KUBECTL, eventually, get, items, output, quiet, run, say

FAILED = ("Irreconcilable", "ReleaseFailed")
# What restarts when a workload changes.
WORKLOADS = "pods,replicasets.apps,controllerrevisions.apps"
# How many changes an edit tries, and how many it may render to find them.
TRIES, RENDERS = 4, 40


class Release:
    def __init__(self, watch, namespace, name, folder, note):
        self.resource = f"{watch['kind'].lower()}.{watch['version']}.{watch['group']}"
        self.namespace, self.name, self.folder, self.note = namespace, name, folder, note
        self.chart = watch["chart"]
        self.inside = inside(namespace)

    def read(self):
        return get(self.resource, self.name, "-n", self.namespace) or {}

    def conditions(self):
        return {entry["type"]: entry for entry in self.read().get("status", {}).get("conditions", [])}

    def condition(self, kind):
        return self.conditions().get(kind, {}).get("status") == "True"

    def failure(self):
        """The message of a condition that says that it failed."""
        entries = self.conditions()
        failed = [entries[kind] for kind in FAILED if entries.get(kind, {}).get("status") == "True"]
        return failed and f"{failed[0].get('reason', '')}: {failed[0].get('message', '')}"[:400]

    def settled(self):
        """Waits for the first outcome; returns whether it is deployed, and what there is to say."""
        done = lambda: self.failure() or self.condition("Deployed") or not self.conditions() and self.revision()
        if not eventually(done):
            return "nothing", ""
        if failure := self.failure():
            return "failed", failure
        if not self.conditions():
            return "Deployed", "no status"
        eventually(lambda: self.condition("Ready"), 15)
        ready = self.conditions().get("Ready", {})
        return ("Ready", "") if ready.get("status") == "True" else ("Deployed", ready.get("message", "no Ready")[:160])

    def helm(self, *words):
        return run(HELM, *words, "-n", self.namespace, folder=self.folder)

    def values(self, *flags):
        """The release's values as Helm reads them; `None` if it cannot."""
        text = output(HELM, "get", "values", self.name, "-n", self.namespace, "-o", "json", *flags)
        return (json.loads(text) or {}) if text else None

    def manifest(self, *flags):
        return output(HELM, "get", "manifest", self.name, "-n", self.namespace, *flags)

    def records(self):
        return items("secrets", "-n", self.namespace, "-l", f"owner=helm,name={self.name}")

    def revision(self):
        return max((int(record["metadata"]["labels"]["version"]) for record in self.records()), default=0)

    def touched(self):
        """Changes with each write of an operator to the resource or its records."""
        return [self.read().get("metadata", {}).get("resourceVersion"), *(record["metadata"]["resourceVersion"] for record in self.records())]

    def rendered(self, values, *flags):
        """What Helm renders from these values: its exit code and the manifest."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(values, file)
            file.flush()
            return self.helm("template", self.name, self.chart, "-f", file.name, "--dry-run=server", "--no-hooks", "--skip-crds", "--skip-schema-validation", *flags)

    def equal(self, *flags):
        """Says how many documents of the release's manifest are what Helm renders from the same values."""
        values = self.values()
        if values is None:
            return "helm reads no release"
        code, wanted = self.rendered(values, *flags)
        if code != 0:
            return "Helm fails: " + wanted.strip().split("\n")[-1][:160]
        ours, theirs = documents(self.manifest()), documents(wanted)
        self.differ("what differs from Helm", ours, theirs)
        return f"{sum((ours & theirs).values())} of {sum(theirs.values())}"

    def differ(self, what, ours, theirs):
        """Notes the documents that only one side has."""
        self.note(what, json.dumps([list((ours - theirs).elements()), list((theirs - ours).elements())], indent=1))

    def edit(self):
        """Changes a value, and another one as long as one fails; says what came of it."""
        said = "no value to change"
        for change in self.candidates():
            say(f"{self.name}: edit {json.dumps(change)}")
            before = self.read().get("spec", {})
            worked, said = self.change(change)
            if worked:
                return said
            self.note("an edit that failed", said)
            self.undo(before)
        return said

    def candidates(self):
        """Yields changes that change what Helm renders, and that the server would take."""
        values = self.values() or {}
        before, found = documents(self.rendered(values, "--is-upgrade")[1]), 0
        for number, change in enumerate(changes(self.values("--all") or {})):
            if number >= RENDERS or found >= TRIES:
                return
            code, text = self.rendered(merged(values, change), "--is-upgrade")
            altered = documents(text) - before
            # More than the change itself alters a chart with random values in each render.
            if code == 0 and altered and self.accepted("\n---\n".join(altered)):
                found += 1
                yield change

    def accepted(self, text):
        """Whether the server would take these objects."""
        flags = ("--server-side", "--force-conflicts", "--dry-run=server", *self.inside, "-f", "-")
        return run(KUBECTL, "apply", *flags, stdin=text)[0] == 0

    def change(self, change):
        """Applies a change to the spec; returns whether a new revision came of it, and what to say."""
        revision, text = self.revision(), json.dumps(change)
        code, said = run(KUBECTL, "patch", self.resource, self.name, "-n", self.namespace, "--type=merge", "-p", json.dumps({"spec": change}))
        if code != 0:
            return False, f"{text}: refused: {said.strip()[:160]}"
        done = eventually(lambda: self.failure() or self.revision() > revision and (self.condition("Deployed") or not self.conditions()))
        failure = self.failure() or (not done and "nothing happened")
        if failure:
            return False, f"{text}: {failure[:160]}"
        return True, f"{text}: revision {self.revision()}, {self.equal('--is-upgrade')}"

    def undo(self, spec):
        """Puts the spec back, and waits until the release is well."""
        say(f"{self.name}: undo")
        patch = [{"op": "replace", "path": "/spec", "value": spec}]
        run(KUBECTL, "patch", self.resource, self.name, "-n", self.namespace, "--type=json", "-p", json.dumps(patch))
        eventually(lambda: not self.failure() and (self.condition("Deployed") or not self.conditions()), 180)

    def identities(self):
        """The uid and generation of each object and of what workloads made."""
        listed = items(*self.inside, "-f", "-", "--ignore-not-found", stdin=self.manifest()) + items(WORKLOADS, "-n", self.namespace)
        return {f"{item['kind']}/{item['metadata']['name']}": (item["metadata"]["uid"], item["metadata"].get("generation")) for item in listed if item.get("metadata")}

    def rest(self):
        """Waits until nothing changes any more; returns the revision and the identities."""
        return quiet(lambda: (self.revision(), self.identities()))

    def delete(self):
        """Deletes the resource; says what stayed although nothing keeps it."""
        manifest = self.manifest()
        before = items(*self.inside, "-f", "-", "--ignore-not-found", stdin=manifest)
        run(KUBECTL, "delete", self.resource, self.name, "-n", self.namespace, "--wait=false")
        if not eventually(lambda: not self.read(), 120):
            return f"hangs: {self.failure() or self.conditions()}"[:240]
        uids = {item["metadata"]["uid"] for item in before if not is_kept(item)}
        there = lambda: items(*self.inside, "-f", "-", "--ignore-not-found", stdin=manifest)
        left = lambda: [named(item) for item in there() if item["metadata"]["uid"] in uids]
        eventually(lambda: not left(), 20)
        if names := left():
            return "left: " + ", ".join(names)
        return "records stay" if self.records() else f"clean ({len(uids)} objects)"


def inside(namespace):
    """Flags that make a namespace the default of objects without one; `-n` refuses manifests that name others."""
    path = os.path.join(tempfile.gettempdir(), f"{os.getpid()}-{namespace}.kubeconfig")
    with open(path, "w") as file:
        file.write(output(KUBECTL, "config", "view", "--raw", "--minify", "--flatten"))
    run(KUBECTL, "--kubeconfig", path, "config", "set-context", "--current", "--namespace", namespace)
    return "--kubeconfig", path


def is_kept(item):
    return (item["metadata"].get("annotations") or {}).get("helm.sh/resource-policy") == "keep"


def named(item):
    """Kind and name, and what holds an object that is being deleted."""
    metadata = item["metadata"]
    held = f" (held by {', '.join(metadata.get('finalizers', []))})" if "deletionTimestamp" in metadata else ""
    return f"{item['kind']}/{metadata['name']}{held}"


def documents(text):
    """The documents of a manifest, with how often each occurs."""
    parts = (part.strip() for part in re.split(r"(?m)^---\s*$", text))
    return collections.Counter(part for part in parts if re.sub(r"(?m)^\s*#.*$", "", part).strip())
