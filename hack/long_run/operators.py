"""Operator processes: starting them as their own accounts, changing the leader, and samples of what they hold."""
import json
import os
import signal
import statistics
import subprocess
import time

from measuring import metrics, wait_until

SYSTEM = "long-run-system"
RENEW_DEADLINE = 10


class Operator:
    """A place for an operator, with its own ServiceAccount; one process after another runs there."""

    def __init__(self, name, port, lease, namespace, binary, folder):
        self.name, self.lease, self.folder, self.lives = name, lease, folder, 0
        self.metrics = f"127.0.0.1:{port}"
        self.command = [binary, "run", f"--metrics-bind-address={self.metrics}", "--health-probe-bind-address=0", "--leader-elect",
                        f"--leader-election-id={lease}", f"--leader-election-namespace={SYSTEM}"]
        self.environment = {**os.environ, "WATCH_NAMESPACE": namespace, "KUBECONFIG": self.kubeconfig()}
        self.workers, self.is_paused = set(), False

    def kubeconfig(self):
        """Writes a kubeconfig with the account's token."""
        kubectl = os.environ["KUBECTL"]
        view = json.loads(subprocess.check_output([kubectl, "config", "view", "--raw", "--minify", "-o", "json"]))
        token = subprocess.check_output([kubectl, "-n", SYSTEM, "create", "token", self.name, "--duration=24h"], text=True)
        view["users"][0]["user"] = {"token": token.strip()}
        path = os.path.join(self.folder, f"{self.name}.kubeconfig")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            json.dump(view, file)
        return path

    def start(self):
        self.lives += 1
        self.identity = f"{self.name}-{self.lives}"
        log = open(os.path.join(self.folder, f"{self.name}.log"), "a")
        self.process = subprocess.Popen(self.command, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, env={**self.environment, "HOSTNAME": self.identity})

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)

    def sample(self):
        """What the process holds now; None if it has just ended."""
        try:
            return self.read()
        except (OSError, IndexError):
            return None

    def read(self):
        pid = self.process.pid
        with open(f"/proc/{pid}/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            self.workers |= {int(child) for child in children.read().split()}
        served = {} if self.is_paused else {name: value for name, _, value in metrics(self.metrics)}
        return {
            "at": time.time(),
            "rss": int(lines["VmRSS"].split()[0]) / 1024,
            "threads": int(lines["Threads"]),
            "files": len(links),
            "sockets": sum(link.startswith("socket:") for link in links),
            "tasks": served.get("tokio_alive_tasks"),
            "leads": served.get("leader_election_master_status"),
        }

    def leaked_workers(self):
        """Workers of earlier processes that still run."""
        own = os.path.realpath(self.command[0])
        return [pid for pid in self.workers if link(f"/proc/{pid}/exe") == own]


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return None


class Leaders:
    """Two operators of one lease, of which one leads, and the ways in which it ceases to."""

    def __init__(self, server, operators):
        self.server, self.operators, self.took_over, self.problems = server, operators, {}, []
        self.path = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/{operators[0].lease}"

    def holder(self):
        _, lease = self.server.call("GET", self.path)
        return lease.get("spec", {}).get("holderIdentity", "").rsplit("_", 1)[0]

    def leader(self):
        holder = self.holder()
        return next((operator for operator in self.operators if operator.identity == holder), None)

    def change_until(self, stop, seconds):
        ways = [self.terminate, self.kill, self.pause]
        number = 0
        while not stop.wait(seconds):
            if not wait_until(60, self.leader):
                self.problems.append(f"nobody led for 60 s: {self.holder()}")
                continue
            self.change(ways[number % len(ways)])
            number += 1

    def change(self, way):
        leader = self.leader()
        before, began = leader.identity, time.time()
        way(leader, lambda: wait_until(60, lambda: self.holder() not in ("", before)))
        self.took_over.setdefault(way.__name__, []).append(round(self.since - began, 1))

    def terminate(self, leader, other_leads):
        code = leader.stop()
        if code != 0:
            self.problems.append(f"{leader.identity} ended with {code} after SIGTERM")
        self.restart(leader, other_leads)

    def kill(self, leader, other_leads):
        leader.process.kill()
        leader.process.wait()
        self.restart(leader, other_leads)

    def restart(self, leader, other_leads):
        leader.start()
        self.note(other_leads())

    def note(self, has_leader):
        self.since = time.time()
        if not has_leader:
            self.problems.append(f"nobody took over: {self.holder()}")

    def pause(self, leader, other_leads):
        """Freezes the leader until another leads, and for some seconds more: it wakes up with an expired lease and must end."""
        began, leader.is_paused = time.time(), True
        leader.process.send_signal(signal.SIGSTOP)
        self.note(other_leads())
        time.sleep(max(0, began + 2.5 * RENEW_DEADLINE - time.time()))
        leader.process.send_signal(signal.SIGCONT)
        try:
            leader.process.wait(20)
        except subprocess.TimeoutExpired:
            self.problems.append(f"{leader.identity} still runs without its lease")
            leader.process.kill()
            leader.process.wait()
        leader.start()
        leader.is_paused = False

    def summary(self):
        return {way: {"changes": len(s), "median_s": statistics.median(s), "max_s": max(s)} for way, s in self.took_over.items()}


def growth(samples, field="rss"):
    """The slope of a field by least squares, per hour."""
    points = [(sample["at"] / 3600, sample[field]) for sample in samples if sample[field] is not None]
    if len(points) < 3:
        return None
    return round(statistics.linear_regression(*zip(*points)).slope, 2)


def summary(samples):
    """First, last and highest of each figure, and the slopes over all the time and over its second half."""
    fields = ("rss", "threads", "files", "sockets", "tasks")
    known = lambda field: [round(sample[field], 1) for sample in samples if sample[field] is not None] or [None]
    figures = {field: {"first": known(field)[0], "last": known(field)[-1], "max": max(known(field), key=lambda v: v or 0)} for field in fields}
    late = samples[len(samples) // 2:]
    return {"seconds": round(samples[-1]["at"] - samples[0]["at"]), **figures, "rss_per_hour": growth(samples), "rss_per_hour_second_half": growth(late)}
