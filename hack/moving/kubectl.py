"""Runs kubectl, helm and the operator, with a limit for each command, and says what is waited for."""
import json
import os
import re
import subprocess
import sys
import time

LIMIT = int(os.environ.get("LIMIT", "60"))
# Commands that render a chart many times.
SLOW = 600
KUBECTL = os.environ.get("KUBECTL", "kubectl")
HELM = os.path.join(os.path.dirname(KUBECTL), "helm")


class OutOfTime(Exception):
    """A project took longer than it may; says what it was doing."""


# What is under way, for a project that runs out of time.
doing = "start"


def say(what):
    """Names the next step on stderr."""
    global doing
    doing = what
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def run(*words, stdin=None, folder=None, limit=LIMIT):
    """Runs a command; returns its exit code and everything it printed."""
    try:
        done = subprocess.run(words, input=stdin, cwd=folder, timeout=limit, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        return 124, f"no end after {limit} s"


def output(*words, stdin=None, folder=None):
    """Returns what a command printed; nothing if it failed."""
    try:
        done = subprocess.run(words, input=stdin, cwd=folder, timeout=LIMIT, capture_output=True, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout if done.returncode == 0 else ""


def get(*words, stdin=None):
    """Reads objects; `None` if there are none."""
    text = output(KUBECTL, "get", *words, "-o", "json", stdin=stdin)
    return json.loads(text) if text.strip() else None


def items(*words, stdin=None):
    """Reads objects as a list."""
    found = get(*words, stdin=stdin) or {}
    return found.get("items", [found] if found else [])


def objects(text, holding=""):
    """Parses those documents of a YAML text that hold a word; of those that kubectl cannot map, nothing."""
    found = []
    for document in re.split(r"(?m)^---.*$", text):
        if holding in document:
            printed = output(KUBECTL, "create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-", stdin=document)
            if printed.strip():
                found.append(json.loads(printed))
    return found


def eventually(check, limit=LIMIT):
    """Asks until the answer is true, or the limit has passed; returns the last answer."""
    end = time.time() + limit
    while not (answer := check()) and time.time() < end:
        time.sleep(0.5)
    return answer


def quiet(read, limit=LIMIT, pause=3):
    """Reads until two answers in a row, `pause` seconds apart, are the same; returns the last."""
    end, last = time.time() + limit, read()
    while time.time() < end:
        time.sleep(pause)
        now = read()
        if now == last:
            break
        last = now
    return last
