"""Injects faults into real runs and writes what became of them.

    python -m tests.faults [NAME ...] [--at-once N] [--journal FILE] [--out docs/results/faults.txt]

Without names all of them, in about ten minutes. It needs the development packages, openssl and, for full disks, root.
Exit code 1 where a run did not survive.
"""

import argparse
import functools
import json
import multiprocessing.util
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from servemark.machine.environment import collect
from tests.faults import answers, control_plane, http2, machine, output, workers
from tests.faults.generator import Rig
from tests.faults.registry import FAULTS

MODULES = (answers, http2, control_plane, machine, output, workers)
"""They fill the list of faults."""
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


_folders: list[str] = []


def _begin() -> None:
    """Make a folder for all runs of this process."""
    folder = tempfile.TemporaryDirectory(prefix="servemark-faults-")
    _folders.append(folder.name)
    multiprocessing.util.Finalize(None, folder.cleanup, exitpriority=1)


def _inject(name: str) -> Outcome:
    """One run, and what is wrong with it."""
    rig = _rig(_folders[0])
    [fault] = (each for each in FAULTS if each.name == name)
    seen = fault.inject(rig)
    troubles = [*fault.troubles(seen)]
    said = f"{fault.row:>2} {fault.name}: {seen.words()}; {'; '.join(troubles) or 'survived'}\n"
    sys.stderr.write(said + (seen.output[-3000:] if troubles else ""))
    machine = collect()
    commit = f"{(machine['git_commit'] or 'unknown')[:8]}{' (changed)' if machine['git_dirty'] else ''}"
    return Outcome(name, seen.words(), troubles, commit, os.getloadavg()[0])


@functools.cache
def _rig(folder: str) -> Rig:
    """The one of this process."""
    return Rig(Path(folder))


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(fault.name for fault in FAULTS)}")
    parser.add_argument("--out", type=Path, help="where to write the page; without it, to stdout")
    parser.add_argument("--at-once", type=int, default=1, help="how many run side by side (default %(default)s)")
    parser.add_argument("--journal", type=Path, help="keeps outcomes: faults in it are not run again unless named")
    options = parser.parse_args()
    # A shell's background ignores Ctrl-C, nohup a hangup, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if unknown := {*options.names} - {fault.name for fault in FAULTS}:
        parser.error(f"no fault is called {', '.join(sorted(unknown))}")
    chosen = [fault for fault in FAULTS if not options.names or fault.name in options.names]
    outcomes = {}
    if options.journal and options.journal.exists():
        outcomes = {line["name"]: Outcome(**line) for line in map(json.loads, options.journal.read_text().splitlines())}
    with ProcessPoolExecutor(options.at_once, initializer=_begin) as pool:
        runs = [pool.submit(_inject, fault.name) for fault in chosen if options.names or fault.name not in outcomes]
        for run in as_completed(runs):
            outcome = run.result()
            outcomes[outcome.name] = outcome
            if options.journal:
                with options.journal.open("a") as file:
                    file.write(json.dumps(asdict(outcome)) + "\n")
    text = page([*outcomes.values()])
    if options.out:
        options.out.write_text(text)
    else:
        sys.stdout.write(text + "\n")
    sys.exit(any(each.troubles for each in outcomes.values()))


if __name__ == "__main__":
    main()
