"""What the measuring scripts share: the API server of a test control plane, and what /proc and /metrics say of a process."""
import http.client
import json
import os
import subprocess
import threading
import time
import urllib.request

CREATORS = 8

# Where cargo builds.
TARGET = os.environ.get("CARGO_TARGET_DIR") or "target"


def inside_cluster(script, arguments, audit=False):
    """Runs `script inside ARGUMENTS…` with a control plane of its own, instead of this process."""
    subprocess.run(["make", "--silent", "cluster"], check=True)
    subprocess.run(["cargo", "build", "--quiet", "-p", "test-cluster", "--bin", "cluster"], check=True)
    flags = ["--audit"] if audit else []
    os.environ.setdefault("TEST_CLUSTER_FOLDER", os.path.abspath("target/cluster"))  # As the Makefile does.
    os.execv(f"{TARGET}/debug/cluster", ["cluster", "run", *flags, os.path.abspath(script), "inside", *arguments])


class Server:
    """The API server behind `kubectl proxy`: one connection per thread."""

    def __init__(self):
        self.proxy = subprocess.Popen([os.environ["KUBECTL"], "proxy", "--port=0"], stdout=subprocess.PIPE, text=True)
        self.address = self.proxy.stdout.readline().split()[-1]
        self.local = threading.local()

    def call(self, method, path, body=None, content="application/json"):
        """Returns the status and the parsed answer."""
        status, text = self.text(method, path, body, content)
        return status, json.loads(text) if text[:1] == b"{" else None

    def text(self, method, path, body=None, content="application/json"):
        for attempt in range(3):
            try:
                if getattr(self.local, "connection", None) is None:
                    self.local.connection = http.client.HTTPConnection(self.address, timeout=120)
                data = json.dumps(body) if body is not None else None
                self.local.connection.request(method, path, data, {"Content-Type": content})
                answer = self.local.connection.getresponse()
                return answer.status, answer.read()
            except (http.client.HTTPException, OSError):
                self.local.connection = None
                if attempt == 2:
                    raise

    def items(self, path, query=""):
        """Yields the objects of a collection, page by page."""
        more = ""
        while True:
            _, page = self.call("GET", f"{path}?limit=500&continue={more}{query}")
            yield from page["items"]
            more = page["metadata"].get("continue", "")
            if not more:
                return

    def each(self, items, do):
        """Calls `do` with each item, several at a time."""
        def some(first):
            for item in items[first::CREATORS]:
                do(item)

        threads = [threading.Thread(target=some, args=(first,)) for first in range(CREATORS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def metrics(address):
    """Yields name, labels (as text) and value of each series that a process serves there."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as page:
        yield from series(page.read().decode())


def series(text):
    for line in text.splitlines():
        if not line.startswith("#"):
            key, value = line.rsplit(" ", 1)
            name, _, labels = key.partition("{")
            yield name, labels, float(value)


def wait_until(limit, condition, pause=0.1):
    """Returns whether the condition came true within `limit` seconds."""
    end = time.time() + limit
    while not condition():
        if time.time() > end:
            return False
        time.sleep(pause)
    return True
