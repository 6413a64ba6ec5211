"""`python -m benchmarks.explain --times N`: plant causes, explain the runs, count how often the right one is named.

Each line of the output file is one run: what was planted, what was named, the sentence, and with --try the predicted
and the measured ratio of p99.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.explain import disturbances
from benchmarks.explain.disturbances import Disturbance
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

ENGINE = "onnxruntime"
QUIET, BUSY = 0.25, 0.85
"""Shares of what one instance can answer."""


@dataclass(frozen=True)
class Plant:
    """A cause on purpose: the model's settings, the load, what disturbs, and the names that are right."""

    right: frozenset[str | None]
    share: float = QUIET
    disturbance: Disturbance = disturbances.nothing
    batching: Mapping[str, Any] = field(default_factory=dict)
    """`delay_us` and `preferred`; empty: no dynamic batching."""


PLANTS = {
    "nothing": Plant(frozenset({None})),
    "one instance too few": Plant(frozenset({"instance"}), BUSY),
    "a queue delay of 20 ms": Plant(frozenset({"batch_fill"}), batching={"delay_us": 20_000}),
    "a batch too large": Plant(
        frozenset({"batch_size", "batch_fill"}), 0.5, batching={"delay_us": 500_000, "preferred": 16}
    ),
    "a delaying proxy": Plant(frozenset({"network"}), disturbance=disturbances.delaying_proxy),
    "a busy neighbour": Plant(frozenset({"other_work"}), disturbance=disturbances.busy_neighbour),
    "a stopped server": Plant(frozenset({"pause"}), disturbance=disturbances.stopped_server),
    "a slow client": Plant(frozenset({"schedule", "network"}), disturbance=disturbances.slow_client),
}


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--workloads", default="resnet20_cifar,resnet50")
    parser.add_argument("--plants", default=",".join(PLANTS))
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--protocol", default="http")
    parser.add_argument("--try", dest="rounds", type=int, default=0, help="Rounds in which each fix is measured.")
    parser.add_argument("--keep", type=Path, help="Keep the results there.")
    parser.add_argument("--out", type=Path, default=Path("explained.jsonl"))
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for workload in given.workloads.split(","):
        capacity = _capacity(workload)
        for number in range(given.times):
            for name in given.plants.split(","):
                row = _planted(workload, name, capacity, number, given)
                rows.append(row)
                with given.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{workload:16} {name:24} {'right' if row['right'] else 'WRONG'}  {row['sentence']}", flush=True)
    for name, (right, count) in _counts(rows).items():
        print(f"{name:24} {right} of {count}")


def _counts(rows: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    counts, right = Counter(row["planted"] for row in rows), Counter(row["planted"] for row in rows if row["right"])
    return {name: (right[name], counts[name]) for name in counts}


def _planted(workload: str, name: str, capacity: float, number: int, given: argparse.Namespace) -> dict[str, Any]:
    plant = PLANTS[name]
    with scratch_folder("planted") as repository, tempfile.TemporaryDirectory() as out:
        _lay_out(workload, plant, repository)
        flags = {"request_rate": f"{plant.share * capacity:g}", "duration": f"{given.seconds:g}", "seed": str(number)}
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
    if found is None:
        return {"workload": workload, "planted": name, "right": False, "named": None, "sentence": "no explanation"}
    tried = found["tried"]
    return {
        "workload": workload,
        "planted": name,
        "right": found["cause"] in plant.right,
        "named": found["cause"],
        "sentence": found["sentence"],
        "note": found["note"],
        "tail_ms": {part["cause"]: round(part["tail_ms"], 3) for part in found["parts"]},
        "predicted_ratio": tried and tried["predicted_ratio"],
        "measured_ratio": tried and tried["ratio"],
    }


def _config(workload: str, repository: Path, out: str, **flags: str | bool) -> LoadConfig:
    return resolved(
        request_of({"model": workload, "engine": ENGINE, "model_repository": str(repository), "out": out, **flags})
    )


def _lay_out(workload: str, plant: Plant, repository: Path) -> None:
    """Link the exported model beside a configuration that is the plant's."""
    from google.protobuf import text_format

    export_where_needed([workload], ENGINE, MODEL_REPOSITORY, "fp32")
    entry = Entry(MODEL_REPOSITORY, workload, ENGINE, "fp32")
    config = parse(entry.config.read_text())
    config.ClearField("dynamic_batching")
    if plant.batching:
        config.dynamic_batching.max_queue_delay_microseconds = plant.batching["delay_us"]
        if preferred := plant.batching.get("preferred"):
            config.dynamic_batching.preferred_batch_size.append(preferred)
    entry.overlay(text_format.MessageToString(config), repository)


def _capacity(workload: str) -> float:
    """Requests/s that one instance answers, one in flight."""
    with scratch_folder("planted") as repository, tempfile.TemporaryDirectory() as out:
        _lay_out(workload, PLANTS["nothing"], repository)
        config = _config(workload, repository, out, concurrency="1", duration="5", warmup="2", explain=True)
        folder = directory.new_directory(config.out, config.model)
        with explaining(config, drive) as run:
            result = run(replace(config, result_dir=folder))
    found = result.get("explanation")
    queue = found["queueing"] if found else None
    rate = float(result["metrics"]["throughput"]["requests_per_s"] or 0.0)
    # The instance is idle while the answer travels and the next request comes.
    return rate / queue["utilization"] if queue else rate


if __name__ == "__main__":
    main()
