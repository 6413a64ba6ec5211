"""The campaign as a page: what was injected, what was expected, what was seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from servemark.machine.environment import collect
from tests.faults.registry import FAULTS

ROWS = range(1, 26)
"""The faults that a load generator should survive; what has another number was added."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one fault; a line of the journal."""

    name: str
    seen: str
    troubles: list[str]
    commit: str
    load: float
    """Mean run queue over the minute before."""


def page(outcomes: Sequence[Outcome]) -> str:
    """The page in Markdown."""
    machine, faults = collect(), {fault.name: fault for fault in FAULTS}
    found = sorted(((faults[each.name], each) for each in outcomes), key=lambda pair: pair[0].row)
    rows = {fault.row for fault, _ in found} & {*ROWS}
    lost = {fault.row for fault, each in found if each.troubles}
    loads = [each.load for each in outcomes]
    lines = [
        "# Faults",
        "",
        "`python -m tests.faults`: each fault is injected into a real run of Locust or `servemark run`.",
        f"{datetime.now(UTC):%Y-%m-%d}, commits {', '.join(sorted({each.commit for each in outcomes}))}.",
        f"Machine: {machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}.",
        f"Load average {min(loads):.0f} to {max(loads):.0f}: other work went on. Times say little.",
        "",
        f"**{len(rows - lost)} of {len(rows)} rows survived** (1 to {ROWS[-1]}), in all "
        f"{sum(not each.troubles for each in outcomes)} of {len(outcomes)} runs.",
        "",
        "A run survived if exit code, kinds of failure and result are as expected. The result must speak of each",
        "request that a counting server received. Memory and time keep their bounds. No process, shared memory or file",
        "is left behind. Memory is that of the largest process, beyond a run without a fault.",
        "Rows with several faults survive if all of them do.",
        "",
        "| row | fault | injected how | expected | seen | survived |",
        "|---|---|---|---|---|---|",
    ]
    for fault, each in found:
        survived = f"NO: {'; '.join(each.troubles)}" if each.troubles else "yes"
        cells = (str(fault.row or "-"), fault.what, fault.how, fault.expected.words(), each.seen, survived)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"
