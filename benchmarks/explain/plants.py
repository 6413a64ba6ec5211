"""Causes on purpose: the load, what disturbs, and the model's settings or its graph."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.explain import disturbances, graphs
from benchmarks.explain.disturbances import Disturbance
from servemark.paths import MODEL_REPOSITORY
from servemark.repository.entry import Entry
from servemark.repository.model_config import parse
from servemark.runs.entries import export_where_needed
from servemark.workload.imported import MODELS

ENGINE = "onnxruntime"
QUIET, BUSY = 0.25, 0.85
"""Shares of the time for which one instance is busy."""
LARGE = 8
"""Requests in a batch that is too large."""
LARGE_FLOATS, LARGE_FLOATS_PER_S = 1 << 20, 250e6
"""Floats of an output that is too large: 4 MiB, and more for a model that computes long."""


@dataclass(frozen=True)
class Plant:
    """A cause on purpose. Its right name stands in `synthetic.PLANTED`."""

    share: float = QUIET
    disturbance: Disturbance = disturbances.nothing
    batching: Mapping[str, Any] = field(default_factory=dict)
    """`delay_us` and `preferred`; empty: no dynamic batching."""
    change: Callable[[float], graphs.Change] | None = None
    """Of the model's graph, for a service time (s)."""


PLANTS = {
    "nothing": Plant(),
    "one instance too few": Plant(BUSY),
    "a queue delay of 20 ms": Plant(batching={"delay_us": 20_000}),
    "a batch too large": Plant(0.5, batching={"preferred": LARGE}),
    "a delaying proxy": Plant(disturbance=disturbances.delaying_proxy),
    "a throttling proxy": Plant(disturbance=disturbances.throttling_proxy),
    "a busy neighbour": Plant(disturbance=disturbances.busy_neighbour),
    "a stopped server": Plant(disturbance=disturbances.stopped_server),
    "large outputs": Plant(
        change=lambda service_s: graphs.large_output(max(LARGE_FLOATS, round(LARGE_FLOATS_PER_S * service_s)))
    ),
    "a slow client": Plant(disturbance=disturbances.slow_client),
    "slow executions": Plant(change=graphs.slow_at_times),
}


@cache
def planted_model(workload: str, name: str, service_s: float) -> str:
    """Return the name of the plant's model: the workload, or one with another graph, imported as a user would.

    `service_s` is the time that an execution of the workload takes.
    """
    change = PLANTS[name].change
    if change is None:
        return workload
    own = f"{workload}_{name.replace(' ', '_')}"
    os.environ.setdefault(MODELS, tempfile.mkdtemp(prefix="planted-models-"))
    export_where_needed([workload], ENGINE, MODEL_REPOSITORY, "fp32")
    [model] = Entry(MODEL_REPOSITORY, workload, ENGINE, "fp32").version.glob("*.onnx")
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / "model.onnx"
        graphs.write_changed(model, change(service_s), changed)
        subprocess.run(
            [sys.executable, "-m", "servemark", "import", str(changed), "--name", own, "--force"], check=True
        )
    return own


def lay_out(workload: str, plant: Plant, rate: float, repository: Path) -> None:
    """Link the exported model beside a configuration that is the plant's, for this rate."""
    from google.protobuf import text_format

    export_where_needed([workload], ENGINE, MODEL_REPOSITORY, "fp32")
    entry = Entry(MODEL_REPOSITORY, workload, ENGINE, "fp32")
    config = parse(entry.read_config())
    config.ClearField("dynamic_batching")
    if preferred := plant.batching.get("preferred"):
        config.dynamic_batching.preferred_batch_size.append(preferred)
        # A batch that fills long before its delay ends.
        config.dynamic_batching.max_queue_delay_microseconds = round(4e6 * preferred / rate)
    elif delay_us := plant.batching.get("delay_us"):
        config.dynamic_batching.max_queue_delay_microseconds = delay_us
    entry.overlay(text_format.MessageToString(config), repository)
