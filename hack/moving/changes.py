"""Small changes of a release's values, those that every chart survives first."""

# Maps that charts copy into metadata, and may leave empty.
METADATA = ("podAnnotations", "podLabels", "commonAnnotations", "commonLabels", "extraLabels", "annotations", "labels")
# Strings that name, select or encode something.
FRAGILE = ("name", "override", "kind", "class", "policy", "type", "mode", "key", "pub", "cert", "config", "content", "image", "repository", "registry", "digest")


def changes(values):
    """Yields changes: metadata, replicas, resources, numbers, then words."""
    found = sorted(leaves(values), key=lambda leaf: (rank(*leaf), len(leaf[0])))
    for path, value in found:
        yield nested(path, changed(path[-1], value))


def leaves(values, path=(), depth=4):
    """Yields the paths and values that can be changed."""
    for key, value in sorted(values.items()):
        here = (*path, key)
        if isinstance(value, dict):
            if key in METADATA:
                yield here, value
            elif depth:
                yield from leaves(value, here, depth - 1)
        elif isinstance(value, (int, str)) and not isinstance(value, bool):
            yield here, value


def rank(path, value):
    """The order of changes: the lower, the less can go wrong."""
    key = path[-1].lower()
    if isinstance(value, dict):
        return 0
    if "replica" in key and isinstance(value, int):
        return 1
    if path[-1] in ("memory", "cpu") and len(path) > 1:
        return 2
    if isinstance(value, int):
        return 4 if "port" in key else 3
    return 6 if key.endswith(FRAGILE) or not value else 5


def changed(key, value):
    """Another value of the same kind."""
    if isinstance(value, dict):
        return {"moved.example.com/edit": "x"}
    if isinstance(value, int):
        return value + 1
    if key in ("memory", "cpu"):
        return "200Mi" if key == "memory" else "150m"
    return value + "x"


def nested(path, value):
    for part in reversed(path):
        value = {part: value}
    return value


def merged(values, change):
    """Values with a change on top."""
    both = dict(values)
    for key, value in change.items():
        both[key] = merged(both[key], value) if isinstance(value, dict) and isinstance(both.get(key), dict) else value
    return both
