"""Markdown tables of the pages that docs/results/ keeps."""

from collections.abc import Sequence

from servemark.machine.environment import Environment


def pipes(head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)])


def circumstances(created: str, environment: Environment) -> str:
    """When, where and from which state of the code: the table that a page begins with."""
    gpus = ", ".join(gpu["name"] for gpu in environment["gpus"]) or "no GPU"
    commit = environment["git_commit"] or "unknown"
    changed = " with uncommitted changes" if environment["git_dirty"] else ""
    machine = f"{environment['cpu']}, {environment['cores']} cores, {environment['memory_gb']} GB, {gpus}"
    packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    rows = [
        ("machine", machine),
        ("system", f"{environment['os']}, Python {environment['python']}"),
        ("commit", commit + changed),
        ("packages", packages),
    ]
    return pipes(("date", created[:10]), rows)
