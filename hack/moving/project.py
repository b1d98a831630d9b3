"""One project, its copy and the operator that serves it."""
import json
import os
import re
import shutil
import subprocess

from moving.kubectl import KUBECTL, LIMIT, SLOW, OutOfTime, eventually, objects, run, say
from moving.release import Release, documents
from moving.table import row

# Folders of charts, whose files are templates.
CHARTS = ("helm-charts", "charts", "templates", "tests", "node_modules")


class Project:
    def __init__(self, name, source, out, operator, upstream):
        self.name, self.operator, self.upstream = name, operator, upstream
        self.folder, self.log = os.path.join(out, name), os.path.join(out, f"{name}.log")
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(source, self.folder, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        open(self.log, "w").close()
        self.namespace = "moved-" + re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-")
        self.process, self.begin = None, [name, "", "", ""]

    def run(self):
        say(f"{self.name}: init and lint")
        self.begin[2], said = run(self.operator, "init", "--from-operator-sdk", ".", folder=self.folder, limit=SLOW)
        self.note("init", said)
        _, linted = run(self.operator, "lint", folder=self.folder, limit=SLOW)
        self.note("lint", linted)
        self.begin[3] = len(re.findall(r"\berror: ", linted))
        self.follow(linted)
        watches = self.watches()
        say(f"{self.name}: definitions")
        self.define(watches)
        run(KUBECTL, "create", "namespace", self.namespace)
        self.start(self.operator)
        try:
            for watch in watches:
                self.row(watch)
        finally:
            self.stop()

    def follow(self, linted):
        """Adds the keys to watches.yaml that lint asks for, from the last line on."""
        path = os.path.join(self.folder, "watches.yaml")
        with open(path) as file:
            lines = file.read().split("\n")
        asked = re.findall(r"(?m)^watches\.yaml:(\d+): .*add '([^']+)' to the entry of", linted)
        for number, key in sorted({(int(number), key) for number, key in asked}, reverse=True):
            at = lines[number - 1]
            lines.insert(number - 1, at[:len(at) - len(at.lstrip())] + key)
            self.begin[2] = f"{self.begin[2]} + {key}"
        with open(path, "w") as file:
            file.write("\n".join(lines))

    def row(self, watch):
        """Serves one kind; what goes wrong here leaves the others their turn."""
        self.begin[1] = watch["kind"]
        try:
            cells = self.serve(watch)
        except OutOfTime:
            raise
        except Exception as error:
            self.note("a failure of this script", repr(error))
            cells = ["", "", "", "", "", "", f"{type(error).__name__}: {error}"]
        row(self.begin + cells)

    def note(self, what, text):
        with open(self.log, "a") as log:
            log.write(f"== {what}\n{text}\n")

    def watches(self):
        """Reads watches.yaml, after paths in the image became paths in the copy."""
        path = os.path.join(self.folder, "watches.yaml")
        with open(path) as file:
            text = file.read().replace("/opt/helm/", "./")
        with open(path, "w") as file:
            file.write(text)
        text = re.sub(r"(?m)^---.*$", "", text)
        return objects("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: watches}\nwatches:\n" + text)[0]["watches"] or []

    def files(self, text):
        """The YAML files of the project that contain a text, without its charts."""
        for place, folders, names in sorted(os.walk(self.folder)):
            folders[:] = [name for name in folders if name not in CHARTS]
            for name in sorted(names):
                if name.endswith((".yaml", ".yml")):
                    with open(os.path.join(place, name), errors="replace") as file:
                        content = file.read()
                    if text in content:
                        yield content

    def define(self, watches):
        """Creates the project's own definitions, and generated ones for kinds without."""
        wanted = self.defined({(watch["group"], watch["kind"]) for watch in watches})
        if wanted:
            self.note("crds", run(self.operator, "generate", "crds", "--force", folder=self.folder, limit=SLOW)[1])
            self.defined(wanted)
        run(KUBECTL, "wait", "--for=condition=Established", "--all", "crd")

    def defined(self, wanted):
        """Creates the definitions that the project's files have of these kinds; returns the kinds without."""
        for content in self.files("kind: CustomResourceDefinition"):
            for crd in objects(content, "kind: CustomResourceDefinition"):
                kind = (crd.get("spec", {}).get("group"), crd.get("spec", {}).get("names", {}).get("kind"))
                if kind in wanted and run(KUBECTL, "apply", "--server-side", "-f", "-", stdin=json.dumps(crd))[0] == 0:
                    wanted = wanted - {kind}
        return wanted

    def environment(self):
        """The plain variables of the manager's container."""
        found = {}
        for content in self.files("kind: Deployment"):
            for deployment in objects(content, "kind: Deployment"):
                for container in deployment.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
                    found.update((entry["name"], entry["value"]) for entry in container.get("env") or [] if "value" in entry)
        found.pop("WATCH_NAMESPACE", None)
        return {**os.environ, **found}

    def start(self, program):
        address = "127.0.0.1:0" if program == self.upstream else "0"
        ports = [f"--metrics-bind-address={address}", f"--health-probe-bind-address={address}"]
        with open(self.log, "a") as log:
            log.write(f"== {os.path.basename(program)}\n")
            log.flush()
            command = [program, "run", "--watches-file=watches.yaml", *ports]
            self.process = subprocess.Popen(command, cwd=self.folder, env=self.environment(), stdout=log, stderr=subprocess.STDOUT)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def reconciled(self, release, since):
        """Whether the operator has logged that it is done with a release."""
        with open(self.log, errors="replace") as log:
            log.seek(since)
            lines = [line for line in log if release.name in line]
        return any(done in line for line in lines for done in ("Reconciled release", "Upgraded release", "Rolled back release"))

    def last_line(self):
        """The error of an operator that ended."""
        with open(self.log) as log:
            line = log.read().strip().split("\n")[-1]
        return json.loads(line).get("error", line) if line.startswith("{") else line

    def sample(self, watch):
        """The project's own sample of a kind, or an empty one."""
        for content in self.files(f"kind: {watch['kind']}"):
            for resource in objects(content, f"kind: {watch['kind']}"):
                if resource["kind"] == watch["kind"] and resource["apiVersion"].startswith(watch["group"] + "/") and "spec" in resource:
                    return resource
        version = f"{watch['group']}/{watch['version']}"
        return {"apiVersion": version, "kind": watch["kind"], "metadata": {"name": "sample"}, "spec": {}}

    def serve(self, watch):
        resource = self.sample(watch)
        namespace = resource["metadata"].setdefault("namespace", self.namespace)
        run(KUBECTL, "create", "namespace", namespace)
        say(f"{self.name}: install {watch['kind']}")
        code, said = run(KUBECTL, "apply", "--validate=warn", "-f", "-", stdin=json.dumps(resource))
        if self.process.poll() is not None:
            return ["the operator ended", "", "", "", "", "", self.last_line()]
        if code != 0:
            return ["refused", "", "", "", "", "", said]
        release = Release(watch, namespace, resource["metadata"]["name"], self.folder, self.note)
        state, remark = release.settled()
        if state in ("failed", "nothing"):
            return [state, "", "", "", "", self.delete(release), remark]
        equal, edit = release.equal(), release.edit()
        swaps = [self.swap(release, self.upstream), self.swap(release, self.operator)] if self.upstream else ["", ""]
        return [state, equal, edit, *swaps, self.delete(release), remark]

    def delete(self, release):
        say(f"{self.name}: delete {release.name}")
        return release.delete()

    def swap(self, release, program):
        """Lets another operator take over; says which objects that changed."""
        say(f"{self.name}: rest, then swap to {os.path.basename(os.path.dirname(program))}")
        release.rest()
        self.stop()
        # What the other operator still did while it stopped is not this one's.
        revision, before, manifest = release.revision(), release.identities(), release.manifest()
        logged = os.path.getsize(self.log)
        self.start(program)
        # This operator says nothing of a release that it knows.
        limit = LIMIT if program == self.upstream else 15
        if not eventually(lambda: self.reconciled(release, logged), limit) and program == self.upstream:
            return "it did not reconcile: " + self.last_line()[:160]
        now, after = release.rest()
        changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
        if revision != now:
            changed.append(f"revision {revision} → {now}")
            release.differ("what the swap changed", documents(manifest), documents(release.manifest()))
        return f"same ({len(before)})" if not changed else ", ".join(sorted(changed))
