"""The table that is printed, one row for each kind."""

COLUMNS = ["project", "kind", "init", "lint", "sample", "equal to helm", "edit", "swap", "back", "delete", "remark"]


def row(cells):
    print("| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in cells) + " |", flush=True)
