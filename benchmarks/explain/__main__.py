"""Plant causes of slow requests, explain the runs, count how often the right one is named.

    python -m benchmarks.explain [--times 20] [--workloads ranking,resnet50] [--try 3]    on a real server
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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.explain import disturbances
from benchmarks.explain.disturbances import Disturbance
from benchmarks.explain.synthetic import PLANTED, planted
from loadgen.load.load_config import LoadConfig
from servemark.cli._load_flags import resolved
from servemark.documents.flags import request_of
from servemark.explain.capture import explaining
from servemark.explain.trial import try_fix
from servemark.machine.scratch import scratch_folder
from servemark.paths import MODEL_REPOSITORY
from servemark.repository.entry import Entry
from servemark.repository.model_config import parse
from servemark.results import directory
from servemark.results.schema.run import Result
from servemark.runs.entries import export_where_needed
from servemark.runs.locust_process import drive
from servemark.runs.server import server_for
from servemark.stats.ratios import ratio_of_pairs

ENGINE = "onnxruntime"
QUIET, BUSY = 0.25, 0.85
"""Shares of what one instance can answer."""
LARGE = 8
"""Requests in a batch that is too large."""


@dataclass(frozen=True)
class Plant:
    """A cause on purpose: the load, what disturbs, and the model's settings. Its right name stands in PLANTED."""

    share: float = QUIET
    disturbance: Disturbance = disturbances.nothing
    batching: Mapping[str, Any] = field(default_factory=dict)
    """`delay_us` and `preferred`; empty: no dynamic batching."""


PLANTS = {
    "nothing": Plant(),
    "one instance too few": Plant(BUSY),
    "a queue delay of 20 ms": Plant(batching={"delay_us": 20_000}),
    "a batch too large": Plant(0.5, batching={"preferred": LARGE}),
    "a delaying proxy": Plant(disturbance=disturbances.delaying_proxy),
    "a throttling proxy": Plant(disturbance=disturbances.throttling_proxy),
    "a busy neighbour": Plant(disturbance=disturbances.busy_neighbour),
    "a stopped server": Plant(disturbance=disturbances.stopped_server),
    "a slow client": Plant(disturbance=disturbances.slow_client),
}


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="Number of the first time, which is its seed.")
    parser.add_argument("--workloads", default="ranking,resnet50")
    parser.add_argument("--plants", default=",".join(PLANTS))
    parser.add_argument("--seconds", type=float, default=25.0)
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
    for workload in given.workloads.split(","):
        capacity = _capacity(workload)
        for number in range(given.first, given.first + given.times):
            for name in given.plants.split(","):
                row = _planted(workload, name, capacity, number, given)
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


def _planted(workload: str, name: str, capacity: float, number: int, given: argparse.Namespace) -> dict[str, Any]:
    plant, load = PLANTS[name], os.getloadavg()[0]
    rate = plant.share * capacity
    with scratch_folder("planted") as repository, tempfile.TemporaryDirectory() as out:
        _lay_out(workload, plant, rate, repository)
        flags = {"request_rate": f"{rate:g}", "duration": f"{given.seconds:g}", "seed": str(number), "warmup": "2"}
        config = _config(workload, repository, str(given.keep or out), explain=True, protocol=given.protocol, **flags)
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
        "other_cores": result["metrics"].get("cpu", {}).get("other_cores"),
        "fix": next((fix["words"] for fix in found["fixes"]), None),
        "predicted_ratio": tried and tried["predicted_ratio"],
        "measured_ratio": tried and tried["ratio"],
    }


def _config(workload: str, repository: Path, out: str, **flags: str | bool) -> LoadConfig:
    return resolved(
        request_of({"model": workload, "engine": ENGINE, "model_repository": str(repository), "out": out, **flags})
    )


def _lay_out(workload: str, plant: Plant, rate: float, repository: Path) -> None:
    """Link the exported model beside a configuration that is the plant's, for this rate."""
    from google.protobuf import text_format

    export_where_needed([workload], ENGINE, MODEL_REPOSITORY, "fp32")
    entry = Entry(MODEL_REPOSITORY, workload, ENGINE, "fp32")
    config = parse(entry.config.read_text())
    config.ClearField("dynamic_batching")
    if preferred := plant.batching.get("preferred"):
        config.dynamic_batching.preferred_batch_size.append(preferred)
        # A batch that fills long before its delay ends.
        config.dynamic_batching.max_queue_delay_microseconds = round(4e6 * preferred / rate)
    elif delay_us := plant.batching.get("delay_us"):
        config.dynamic_batching.max_queue_delay_microseconds = delay_us
    entry.overlay(text_format.MessageToString(config), repository)


def _capacity(workload: str) -> float:
    """Requests/s that one instance answers to a load generator on the same cores, whose requests always wait for it."""
    with scratch_folder("planted") as repository, tempfile.TemporaryDirectory() as out:
        _lay_out(workload, Plant(), 1.0, repository)
        config = _config(workload, repository, out, concurrency="8", duration="8", warmup="2", explain=True)
        folder = directory.new_directory(config.out, config.model)
        with explaining(config, drive) as run:
            result = run(replace(config, result_dir=folder))
    return float(result["metrics"]["throughput"]["requests_per_s"] or 0.0)


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
                metrics = result["metrics"]
                found[explain] = {
                    "p50": float(metrics["latency_ms"]["p50"] or 0.0),
                    "requests/s": float(metrics["throughput"]["requests_per_s"] or 0.0),
                }
            for key, values in pairs.items():
                values.append((found[True][key], found[False][key]))
    for key, values in pairs.items():
        ratio = ratio_of_pairs(values)
        print(f"{workload:10} {key:10} with the trace / without {ratio.value:.3f}  {ratio.to_dict()['ci95']}")


if __name__ == "__main__":
    main()
