"""Writes docs/scoreboard.md and its figures from the lines that runs left."""
import json
import os
import re
import subprocess

PAGE = "docs/scoreboard.md"
OURS = "here"
PEERS = {"operator-sdk": "operator-sdk's Helm operator", "helm-operator-plugins": "helm-operator-plugins"}
OPERATORS = [OURS, *PEERS]
PHASES = {
    "install": "install until all are ready",
    "idle": "left alone",
    "upgrade": "upgrade of all",
    "repair": "every Deployment deleted until all are back",
    "restart": "restart until a missed change is applied",
    "uninstall": "uninstall of all",
}
MEMORY = {"mib_start": "at the start", "mib_steady": "with all installed", "mib_peak": "peak"}
FIGURES = {
    "scoreboard-install": "Seconds until all resources are ready",
    "scoreboard-upgrade": "Seconds until all resources are upgraded",
    "scoreboard-repair": "Seconds until all Deployments are back",
    "scoreboard-memory": "Memory with all resources installed",
}


def write(raw):
    with open(raw) as lines:
        read = [json.loads(line) for line in lines]
    runs = {(line["operator"], line["n"]): line for line in read if "install" in line}
    renders = {line["render"]: line for line in read if "render" in line}
    sizes = sorted({n for _, n in runs})
    subprocess.run(["cargo", "run", "--quiet", "-p", "conformance", "--bin", "plots"], check=True)
    parts = [INTRODUCTION.format(cores=os.cpu_count(), versions=versions(), idle=idle(runs))]
    parts += [f"![{title}](figures/{name}.svg)" for name, title in FIGURES.items()]
    parts += [section(runs, n) for n in sizes]
    parts += [rendering(renders)] if renders else []
    parts += [losses(runs, renders)]
    with open(PAGE, "w") as page:
        page.write("\n\n".join(parts) + "\n")


INTRODUCTION = """# Scoreboard
<!-- Written by `make scoreboard` from docs/figures/scoreboard.jsonl. -->

This operator and the two that it replaces, measured one after another on {cores} cores, which they shared with the API server, etcd, Kubernetes'
controllers and the client. Each served the chart of `helm create` on its own control plane, with eight workers, a period of one minute, and dependents
watched. Peers: {versions}. Pods are simulated.

Each cell has seconds, the operator's CPU seconds, and its requests for each resource, without watches and leases. Memory is the proportional set size of
the operator's processes. A dash means that the phase did not end within three seconds for each resource, at least 180. All were left alone for {idle:g}
seconds.

`make scoreboard` repeats it: two hours for all sizes, `N=50` ten minutes. Each size says when it was measured. Absolute times differ between machines and
days; compare what ran side by side, and requests and CPU first. What this operator leaves over is the key of its records, in its own namespace."""


def versions():
    found = []
    for peer, name in PEERS.items():
        with open(f"tools/peers/{peer}/go.mod") as module:
            found.append(f"{name} {re.search(r'operator-framework/%s (v[0-9.]+)' % peer, module.read()).group(1)}")
    return ", ".join(found)


def idle(runs):
    return next(iter(runs.values()))["idle"]["s"]


def section(runs, n):
    measured = [name for name in OPERATORS if (name, n) in runs]
    missing = [name for name in OPERATORS if name not in measured]
    lines = [f"## {n:,} resources", about([runs[name, n] for name in measured], missing), ""]
    lines += [table_row(["", *measured]), table_row(["---"] * (len(measured) + 1))]
    lines += [table_row([what, *[cell(runs[name, n][phase]) for name in measured]]) for phase, what in PHASES.items()]
    lines += [table_row([f"memory {what}", *[f"{runs[name, n][key]} MiB" for name in measured]]) for key, what in MEMORY.items()]
    lines.append(table_row(["left over", *[str(runs[name, n]["left_over"]) for name in measured]]))
    return "\n".join(lines)


def about(lines, missing=()):
    """Says when the lines were measured, what their runs are known for, and which operators are not among them."""
    when = sorted({line["date"] + (f" ({line['commit']})" if "commit" in line else "") for line in lines})
    notes = dict.fromkeys(line["note"] for line in lines if "note" in line)
    return " ".join([f"Measured on {' and '.join(when)}.", *notes, *(f"{name} was not measured at this size." for name in missing)])


def table_row(cells):
    return "|" + "|".join(f" {text} " if text else " " for text in cells) + "|"


def cell(phase):
    seconds = "–" if phase["s"] is None else f"{phase['s']:.1f}"
    return f"{seconds}, {phase['cpu_s']:.2f}, {phase['requests_each']:.1f}"


def rendering(renders):
    lines = ["## Rendering", about(renders.values()), "", "| chart | Helm's engine | here | ratio |", "|---|---|---|---|"]
    for chart, line in renders.items():
        ratio = line["helm_ms"] / line["here_ms"]
        lines.append(f"| {chart} | {line['helm_ms']:.3f} ms | {line['here_ms']:.3f} ms | {ratio:.1f} |")
    return "\n".join(lines)


def losses(runs, renders):
    """Lists what a peer does better."""
    found = []
    for (name, n), run in sorted(runs.items()):
        ours = runs.get((OURS, n))
        if name != OURS and ours:
            found += [f"- {n:,} resources, {what}: {name} {theirs}, here {own}" for what, theirs, own in compared(run, ours) if is_less(theirs, own)]
    found += [f"- rendering of {chart}" for chart, line in renders.items() if line["helm_ms"] < line["here_ms"]]
    return "\n".join(["## Where a peer is ahead", *(found or ["Nowhere, in these runs."])])


def compared(run, ours):
    for phase, what in PHASES.items():
        measures = ["cpu_s", "requests_each"] if phase == "idle" else ["s", "cpu_s", "requests_each"]
        names = {"s": "seconds", "cpu_s": "CPU seconds", "requests_each": "requests for each"}
        yield from ((f"{what}, {names[key]}", run[phase][key], ours[phase][key]) for key in measures)
    yield from ((f"memory {what}, MiB", run[key], ours[key]) for key, what in MEMORY.items())
    yield "objects left over", run["left_over"], ours["left_over"]


def is_less(theirs, own):
    return theirs is not None and (own is None or theirs < own)
