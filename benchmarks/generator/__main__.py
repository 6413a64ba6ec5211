"""Speed of the load generator: a registry of benchmarks, one command each.

    python -m benchmarks.generator peers --seconds 2 > docs/results/generator.txt
    python -m benchmarks.generator http            # or: grpc, streaming, latency, json, image, image-shm, ...
    python -m benchmarks.generator http grpc latency ceiling --baseline ../checkout-of-another-commit
    python -m benchmarks.generator turns --rounds 24 --seconds 6 --baseline ../checkout-of-another-commit

Those against other generators run in turns with them, on the same server and cores, and give ratios with their 95 %
intervals (from 5 rounds on). Each line with an aim says whether it was met. Peers are taken from PATH, or from the
variables PERF_ANALYZER, WRK, H2LOAD and HEY; one that is missing is named with the reason. `peers` takes about eleven
minutes with --seconds 2, on a machine that does nothing else.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.generator.comparisons import COMPARISONS, peers
from benchmarks.generator.turns import turns
from benchmarks.rig.peer_load import BOTH, NEITHER
from servemark.machine import environment

TURNS = "turns"
BENCHMARKS: dict[str, Callable[[int, float], None]] = {
    "peers": peers,
    **COMPARISONS,
    TURNS: turns,
}
"""Each takes the number of pairs and the seconds of a run."""
ALL = "all"
TIMEOUT_S = 1800


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="+", choices=[*BENCHMARKS, ALL], metavar=f"{{{','.join(BENCHMARKS)},all}}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--baseline", type=Path, help="a checkout to compare with, instead of the peers")
    parser.add_argument(
        "--cores-awake", choices=(BOTH, NEITHER), default=NEITHER, help="of comparisons (default: %(default)s)"
    )
    options = parser.parse_args()
    names = [name for name in BENCHMARKS if name != TURNS] if ALL in options.benchmarks else options.benchmarks
    settings = ["--rounds", str(options.rounds), "--seconds", f"{options.seconds:g}"]
    settings += ["--cores-awake", options.cores_awake]
    if options.baseline:
        if others := sorted(set(names) - {*COMPARISONS, TURNS}):
            parser.error(f"--baseline goes with {', '.join(COMPARISONS)} and {TURNS}, not with {', '.join(others)}")
        settings += ["--baseline", str(options.baseline.resolve())]
    if len(names) == 1:
        print(_machine(), flush=True)
        if comparison := COMPARISONS.get(names[0]):
            comparison(options.rounds, options.seconds, options.cores_awake, options.baseline)
        elif names[0] == TURNS:
            turns(options.rounds, options.seconds, options.baseline)
        else:
            BENCHMARKS[names[0]](options.rounds, options.seconds)
        return
    print(_machine(), flush=True)
    failed = []
    for name in names:
        # A process for each: Locust patches the one that it is imported into, and one failure leaves the others.
        command = ["-m", "benchmarks.generator", name, *settings]
        print(f"\n$ python {' '.join(command)}", flush=True)
        try:
            if subprocess.run([sys.executable, *command], check=False, timeout=TIMEOUT_S).returncode:
                failed.append(name)
        except subprocess.TimeoutExpired:
            failed.append(f"{name} (not done within {TIMEOUT_S} s)")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def _machine() -> str:
    found = environment.collect()
    load = os.getloadavg()[0]
    today = datetime.now(UTC).date().isoformat()
    return f"{today}, {found['cpu']}, {found['cores']} cores, Python {found['python']}, load average before {load:.2f}"


if __name__ == "__main__":
    main()
