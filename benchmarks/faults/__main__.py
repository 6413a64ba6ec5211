"""Injects faults into real runs and writes what became of them.

    python -m benchmarks.faults [NAME ...] [--out docs/results/faults.md]

Without names all of them, in about ten minutes. It needs the development packages, openssl and, for full disks, root.
Exit code 1 where a run did not survive.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks.faults import answers, control_plane, http2, machine
from benchmarks.faults.generator import Rig
from benchmarks.faults.registry import FAULTS
from benchmarks.faults.report import Outcome, page

MODULES = (answers, http2, control_plane, machine)
"""They fill the list of faults."""


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(fault.name for fault in FAULTS)}")
    parser.add_argument("--out", type=Path, help="where to write the page; without it, to stdout")
    options = parser.parse_args()
    # A shell's background ignores Ctrl-C, nohup a hangup, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if unknown := {*options.names} - {fault.name for fault in FAULTS}:
        parser.error(f"no fault is called {', '.join(sorted(unknown))}")
    chosen = [fault for fault in FAULTS if not options.names or fault.name in options.names]
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="servemark-faults-") as folder:
        rig = Rig(Path(folder))
        for fault in chosen:
            seen = fault.inject(rig)
            troubles = [*fault.troubles(seen)]
            outcomes.append((fault, seen, troubles))
            print(f"{fault.row:>2} {fault.name}: {seen.words()}; {'; '.join(troubles) or 'survived'}", file=sys.stderr)
            if troubles:
                print(seen.output[-3000:], file=sys.stderr)
    if options.out:
        options.out.write_text(page(outcomes))
    else:
        print(page(outcomes))
    sys.exit(any(troubles for _, _, troubles in outcomes))


if __name__ == "__main__":
    main()
