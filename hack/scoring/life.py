"""One operator's life with N resources: install, idle, upgrade, repair, restart and uninstall."""
import json
import os
import subprocess
import sys
import time

from measuring import wait_until

KIND = {"group": "score.example.com", "version": "v1", "kind": "Web", "plural": "webs"}
COLLECTION = "/apis/{group}/{version}/namespaces/default/{plural}".format(**KIND)
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SYSTEM = "score-system"
USER = f"system:serviceaccount:{SYSTEM}:operator"
# Seconds in which the last answers and events of a phase arrive.
SETTLE = 5


class Operator:
    """An operator's process and all processes below it, with their own account."""

    def __init__(self, command, folder):
        self.command, self.folder, self.ended_cpu = command, folder, 0
        self.kubeconfig = os.path.join(folder, "operator.kubeconfig")
        kubectl("create", "namespace", SYSTEM)
        kubectl("-n", SYSTEM, "create", "serviceaccount", "operator")
        kubectl("create", "clusterrolebinding", "score", "--clusterrole=cluster-admin", f"--serviceaccount={SYSTEM}:operator")
        view = json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))
        view["users"][0]["user"] = {"token": kubectl("-n", SYSTEM, "create", "token", "operator", "--duration=24h").strip()}
        with open(os.open(self.kubeconfig, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            json.dump(view, file)

    def start(self):
        # Operators find their namespace and their cache of discovery below HOME.
        environment = {**os.environ, "KUBECONFIG": self.kubeconfig, "WATCH_NAMESPACE": "", "HOME": self.folder}
        with open(os.path.join(self.folder, "operator.log"), "a") as log:
            self.process = subprocess.Popen(self.command, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def tree(self):
        """The ids of the process and of all below it."""
        todo, found = [self.process.pid], []
        while todo:
            pid = todo.pop()
            found.append(pid)
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{task}/children") as children:
                        todo += map(int, children.read().split())
            except OSError:
                pass
        return found

    def memory(self):
        """The proportional set size in MiB."""
        return round(sum(proportional(pid) for pid in self.tree()) / 1024, 1)

    def cpu(self):
        """CPU seconds of these processes, and of those that have ended."""
        return sum(map(ticks, self.tree())) / os.sysconf("SC_CLK_TCK")


def proportional(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            return sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
    except OSError:
        return 0


def ticks(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:15]))
    except OSError:
        return 0


def kubectl(*arguments):
    return subprocess.check_output([os.environ["KUBECTL"], *arguments], text=True)


class Requests:
    """Counts the operator's requests in the audit log, without watches and leases."""

    def __init__(self):
        self.log, self.place, self.count = os.path.join(os.environ["CLUSTER_FOLDER"], "audit.log"), 0, 0

    def so_far(self):
        with open(self.log, "rb") as lines:
            lines.seek(self.place)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self.place += len(line)
                self.count += USER.encode() in line and counts(json.loads(line))
        return self.count


def counts(event):
    return event["user"]["username"] == USER and event["verb"] != "watch" and event.get("objectRef", {}).get("resource") != "leases"


class Life:
    """What one operator does with N resources, measured phase by phase."""

    def __init__(self, server, operator, n, idle):
        self.server, self.operator, self.n, self.idle = server, operator, n, idle
        self.requests, self.limit, self.peak, self.out = Requests(), max(180, 3 * n), 0, {}

    def phase(self, name, act, is_done):
        """Measures from before the act until it is done, or until the limit."""
        cpu, requests, began = self.operator.cpu(), self.requests.so_far(), time.time()
        act()
        seconds = round(time.time() - began, 2) if self.wait(is_done) else None
        time.sleep(SETTLE)
        self.note(name, seconds, cpu, requests)

    def note(self, name, seconds, cpu, requests):
        each = (self.requests.so_far() - requests) / self.n
        self.out[name] = {"s": seconds, "cpu_s": round(self.operator.cpu() - cpu, 2), "requests_each": round(each, 2)}
        print(f"  {name}: {self.out[name]}", file=sys.stderr, flush=True)

    def wait(self, is_done):
        def look():
            self.peak = max(self.peak, self.operator.memory())
            return self.operator.process.poll() is not None or is_done()

        return wait_until(self.limit, look, 0.1 if self.n <= 100 else 0.5) and self.operator.process.poll() is None

    def live(self):
        operator, out = self.operator, self.out
        operator.start()
        time.sleep(SETTLE)
        out["mib_start"] = operator.memory()
        self.phase("install", self.create, lambda: self.deployed() == self.n and self.ready() == self.n)
        cpu, requests = operator.cpu(), self.requests.so_far()
        time.sleep(self.idle)
        self.note("idle", self.idle, cpu, requests)
        out["mib_steady"] = operator.memory()
        self.phase("upgrade", lambda: self.scale(range(self.n), 2), lambda: self.scaled(2) == self.n)
        self.phase("repair", self.break_all, lambda: self.scaled(2) == self.n)
        operator.stop()
        self.restart()
        self.phase("uninstall", self.delete, lambda: not any(True for _ in self.server.items(COLLECTION)))
        out["left_over"] = sum(1 for _ in self.server.items("/api/v1/namespaces/default/secrets")) + len(self.deployments())
        out["mib_peak"] = round(self.peak, 1)
        operator.stop()
        return out

    def restart(self):
        """Measures a start until the operator has acted on a change that was made while it was down."""
        requests, began = self.requests.so_far(), time.time()
        self.scale([0], 3)
        self.operator.start()
        seconds = round(time.time() - began, 2) if self.wait(lambda: self.scaled(3) == 1) else None
        time.sleep(self.idle / 2)
        self.note("restart", seconds, 0, requests)

    def create(self):
        def some(number):
            spec = {"replicaCount": 1, "autoscaling": {"enabled": False}}
            resource = {"apiVersion": "{group}/{version}".format(**KIND), "kind": KIND["kind"], "metadata": {"name": f"w{number}"}, "spec": spec}
            assert self.server.call("POST", COLLECTION, resource)[0] == 201

        self.server.each(range(self.n), some)

    def scale(self, numbers, replicas):
        def some(number):
            change = {"spec": {"replicaCount": replicas}}
            assert self.server.call("PATCH", f"{COLLECTION}/w{number}", change, "application/merge-patch+json")[0] == 200

        self.server.each(numbers, some)

    def break_all(self):
        self.server.each(self.deployments(), lambda deployment: self.server.call("DELETE", f"{DEPLOYMENTS}/{deployment['metadata']['name']}"))

    def delete(self):
        self.server.each(range(self.n), lambda number: self.server.call("DELETE", f"{COLLECTION}/w{number}"))

    def deployments(self):
        return list(self.server.items(DEPLOYMENTS))

    def ready(self):
        return sum(deployment.get("status", {}).get("readyReplicas", 0) > 0 for deployment in self.deployments())

    def scaled(self, replicas):
        return sum(deployment["spec"]["replicas"] == replicas for deployment in self.deployments())

    def deployed(self):
        """How many resources say that their release is deployed."""
        def is_deployed(item):
            return any(condition["type"] == "Deployed" and condition["status"] == "True" for condition in item.get("status", {}).get("conditions", []))

        return sum(map(is_deployed, self.server.items(COLLECTION)))


def prepare(server, folder):
    """Creates the chart, its definition and watches.yaml."""
    helm = os.path.join(os.path.dirname(os.environ["KUBECTL"]), "helm")
    subprocess.run([helm, "create", f"{folder}/web"], check=True, stdout=subprocess.DEVNULL)
    with open(f"{folder}/watches.yaml", "w") as watches:
        watches.write("- {{group: {group}, version: {version}, kind: {kind}, chart: ./web, watchDependentResources: true}}\n".format(**KIND))
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {"name": KIND["version"], "served": True, "storage": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "{plural}.{group}".format(**KIND)},
        "spec": {"group": KIND["group"], "scope": "Namespaced", "names": {"kind": KIND["kind"], "plural": KIND["plural"]}, "versions": [version]},
    }
    assert server.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)[0] == 201
    assert wait_until(30, lambda: server.call("GET", COLLECTION)[0] == 200)
