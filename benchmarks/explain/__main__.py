"""Plant causes of slow requests, explain the runs, count how often the right one is named.

    python -m benchmarks.explain [--times 20] [--workloads ranking,googlenet] [--try 3]    on a real server
    python -m benchmarks.explain --simulated 100    without one
    python -m benchmarks.explain --cost 5    the cost of tracing, in interleaved rounds

On a real server each line of the output file is one run: what was planted, what was named, the sentence, and with
--try the predicted and the measured ratio of p99.
"""

import argparse
import json
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.explain.plants import ENGINE, PLANTS, QUIET, Plant, lay_out, planted_model
from benchmarks.explain.synthetic import PLANTED, planted
from loadgen.load.load_config import LoadConfig
from servemark.cli._load_flags import resolved
from servemark.documents.flags import request_of
from servemark.explain.capture import explaining
from servemark.explain.document import FEWEST
from servemark.explain.trial import try_fix
from servemark.figures.registry import value_of
from servemark.machine.scratch import scratch_folder
from servemark.paths import MODEL_REPOSITORY
from servemark.results import directory
from servemark.results.schema.run import Result
from servemark.runs.locust_process import drive
from servemark.runs.server import server_for
from servemark.stats.ratios import ratio_of_pairs


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="Number of the first time, which is its seed.")
    parser.add_argument("--workloads", default="ranking,googlenet")
    parser.add_argument("--plants", default=",".join(PLANTS))
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--protocol", default="http")
    parser.add_argument("--try", dest="rounds", type=int, default=0, help="Rounds in which each fix is measured.")
    parser.add_argument("--keep", type=Path, help="Keep the results there.")
    parser.add_argument("--out", type=Path, default=Path("explained.jsonl"))
    parser.add_argument("--simulated", type=int, help="Seeds of each cause that is simulated.")
    parser.add_argument("--counts", type=Path, nargs="+", help="Output files: print their counts, and run nothing.")
    parser.add_argument("--cost", type=int, help="Rounds, each with one run with the trace and one without.")
    given = parser.parse_args()
    if given.counts:
        _print_counts(json.loads(line) for file in given.counts for line in file.read_text().splitlines())
    elif given.simulated:
        _print_counts(_simulated(given.simulated))
    elif given.cost:
        for workload in given.workloads.split(","):
            _cost(workload, given)
    else:
        _print_counts(_on_a_server(given))


def _simulated(count: int) -> Iterator[dict[str, Any]]:
    for name, right in PLANTED.items():
        for seed in range(count):
            named = planted(name, seed).explained()["cause"]
            yield {"planted": name, "named": named, "right": named == right}


def _on_a_server(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for number in range(given.first, given.first + given.times):
        for workload in given.workloads.split(","):
            for name in given.plants.split(","):
                row = _planted(workload, name, number, given)
                with given.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{workload:10} {name:24} {'right' if row['right'] else 'WRONG'}  {row['sentence']}", flush=True)
                yield row


def _print_counts(rows: Iterable[dict[str, Any]]) -> None:
    right, named = Counter[str](), defaultdict[str, Counter[str]](Counter)
    for row in rows:
        right[row["planted"]] += row["right"]
        named[row["planted"]][row["named"] or "nothing"] += 1
    for name, found in named.items():
        others = ", ".join(f"{cause} {count}" for cause, count in found.most_common())
        print(f"{name:28} {right[name]:4} of {found.total():<4} named: {others}")
    print(f"{'in all':28} {right.total():4} of {sum(found.total() for found in named.values())}")


def _planted(workload: str, name: str, number: int, given: argparse.Namespace) -> dict[str, Any]:
    plant, load = PLANTS[name], os.getloadavg()[0]
    model = planted_model(workload, name, QUIET / _rate(workload, QUIET))
    rate = _rate(model, plant.share)
    with scratch_folder("planted") as repository, tempfile.TemporaryDirectory() as out:
        lay_out(model, plant, rate, repository)
        seconds = max(given.seconds, 1.5 * FEWEST / rate)
        flags = {"request_rate": f"{rate:g}", "duration": f"{seconds:g}", "seed": str(number), "warmup": "2"}
        config = _config(model, repository, str(given.keep or out), explain=True, protocol=given.protocol, **flags)
        folder = directory.new_directory(config.out, config.model)

        def measure(each: LoadConfig) -> Result:
            with plant.disturbance(each) as changed:
                return drive(changed)

        with explaining(config, measure) as run:
            result = run(replace(config, result_dir=folder))
        if given.rounds:
            try_fix(config, folder, result, given.rounds)
    found = result.get("explanation")
    common = {"workload": workload, "planted": name, "load_average_before": load}
    if found is None:
        return {**common, "right": False, "named": None, "sentence": "no explanation"}
    tried = found["tried"]
    return {
        **common,
        "right": found["cause"] == PLANTED[name],
        "named": found["cause"],
        "sentence": found["sentence"],
        "note": found["note"],
        "median_ms": {part["cause"]: round(part["median_ms"], 3) for part in found["parts"]},
        "tail_ms": {part["cause"]: round(part["tail_ms"], 3) for part in found["parts"]},
        "other_cores": value_of(result, "cpu.other"),
        "fix": next((fix["words"] for fix in found["fixes"]), None),
        "predicted_ratio": tried and tried["predicted_ratio"],
        "measured_ratio": tried and tried["ratio"],
    }


def _config(workload: str, repository: Path, out: str, **flags: str | bool) -> LoadConfig:
    return resolved(
        request_of({"model": workload, "engine": ENGINE, "model_repository": str(repository), "out": out, **flags})
    )


@cache
def _rate(model: str, busy: float) -> float:
    """Requests/s at which one instance is busy for this share of the time, beside the load generator on the same cores.

    An execution takes less time the busier the cores are, because they do not sleep in between.
    """
    closed = _measured(model, concurrency="8", duration="6")
    rate = busy * float(value_of(closed, "throughput.requests") or 0.0) / 2
    for _ in range(2):
        seconds = max(6.0, 1.3 * FEWEST / rate)
        found = _measured(model, request_rate=f"{rate:g}", duration=f"{seconds:g}").get("explanation")
        assert found is not None
        assert found["queueing"] is not None
        rate *= busy / found["queueing"]["utilization"]
    return rate


def _measured(model: str, **flags: str) -> Result:
    with scratch_folder("planted") as repository, tempfile.TemporaryDirectory() as out:
        lay_out(model, Plant(), 1.0, repository)
        config = _config(model, repository, out, warmup="2", explain=True, **flags)
        folder = directory.new_directory(config.out, config.model)
        with explaining(config, drive) as run:
            return run(replace(config, result_dir=folder))


def _cost(workload: str, given: argparse.Namespace) -> None:
    """Print p50 and throughput with the trace as ratios to those without, in rounds whose order alternates."""
    pairs: dict[str, list[tuple[float, float]]] = {"p50": [], "requests/s": []}
    with tempfile.TemporaryDirectory() as out:
        for number in range(given.cost):
            found = {}
            for explain in (True, False) if number % 2 else (False, True):
                flags = {"concurrency": "2", "duration": f"{given.seconds:g}", "warmup": "2", "seed": str(number)}
                config = _config(workload, MODEL_REPOSITORY, out, explain=explain, protocol=given.protocol, **flags)
                if explain:
                    with explaining(config, drive) as run:
                        result = run(config)
                else:
                    with server_for([config]) as [served]:
                        result = drive(served)
                found[explain] = {
                    "p50": value_of(result, "latency.p50") or 0.0,
                    "requests/s": value_of(result, "throughput.requests") or 0.0,
                }
            for key, values in pairs.items():
                values.append((found[True][key], found[False][key]))
    for key, values in pairs.items():
        ratio = ratio_of_pairs(values)
        print(f"{workload:10} {key:10} with the trace / without {ratio.value:.3f}  {ratio.to_dict()['ci95']}")


if __name__ == "__main__":
    main()
