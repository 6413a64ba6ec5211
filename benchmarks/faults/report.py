"""The campaign as a page: what was injected, what was expected, what was seen."""

from collections.abc import Sequence
from datetime import UTC, datetime

from benchmarks.faults.registry import Fault, Seen
from servemark.machine.environment import collect

ROWS = range(1, 26)
"""The faults that a load generator should survive; what has another number was added."""
Outcome = tuple[Fault, Seen, list[str]]


def page(outcomes: Sequence[Outcome]) -> str:
    """The page in Markdown."""
    machine = collect()
    rows = {fault.row for fault, _, _ in outcomes} & {*ROWS}
    lost = {fault.row for fault, _, troubles in outcomes if troubles}
    commit = f"{machine['git_commit'] or 'unknown'}{' and what was changed since' if machine['git_dirty'] else ''}"
    lines = [
        "# Faults",
        "",
        "`python -m benchmarks.faults`: each fault is injected into a real run of Locust or `servemark run`.",
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit}.",
        f"Machine: {machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}.",
        f"Load average at the end: {machine['load_average']}. Times say little where other work went on.",
        "",
        f"**{len(rows - lost)} of {len(rows)} rows survived** (1 to {ROWS[-1]}), in all "
        f"{sum(not troubles for _, _, troubles in outcomes)} of {len(outcomes)} runs.",
        "",
        "A run survived if: exit code, kinds of failure and result are as expected, the result speaks",
        "of each request that a counting server received, memory and time keep their bounds, and no process, shared",
        "memory or file is left behind. Memory is that of the largest process, beyond a run without a fault.",
        "Rows with several faults survive if all of them do.",
        "",
        "| row | fault | injected how | expected | seen | survived |",
        "|---|---|---|---|---|---|",
    ]
    for fault, seen, troubles in sorted(outcomes, key=lambda each: each[0].row):
        survived = f"NO: {'; '.join(troubles)}" if troubles else "yes"
        cells = (str(fault.row or "-"), fault.what, fault.how, fault.expected.words(), seen.words(), survived)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"
