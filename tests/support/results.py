"""Results made up to have known figures, as servemark/results/schema/run.py has them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from servemark.documents.request import RunRequest
from servemark.figures.evidence import Energy, Evidence, Generator
from servemark.figures.registry import figures_of
from servemark.machine.environment import collect
from servemark.results import directory as results
from servemark.results.schema.details import Details, WindowFigures
from servemark.results.schema.run import Result as LoadResult
from servemark.results.schema.run import Scenario
from servemark.stats.histogram import Histogram
from tests.support.documents import filled

Result = Any
NO_METER = "no meter"
NO_FIGURE = {"value": None, "limit": None, "unit": ""}
"""Of a constraint that only holds or not."""
ENVIRONMENT = {**collect(), "cpu": "a", "packages": {"numpy": "1"}, "collected": "now", "git_commit": "c"}
STEADY = tuple(1 + 0.01 * (number % 3 - 1) for number in range(10))
"""Windows whose throughput differs by 1 % up and down."""


def latencies(p50_ms: float, count: int = 400, *, spread: float = 0.05, seed: int = 0) -> npt.NDArray[np.float64]:
    """Latencies in ms around a median."""
    return p50_ms * np.random.default_rng(seed).lognormal(0, spread, count)


def histogram_of(values_ms: npt.NDArray[np.float64]) -> Histogram:
    """A histogram of latencies in ms."""
    histogram = Histogram()
    histogram.record((values_ms * 1e6).astype(np.int64))
    return histogram


def objective_of(status: str, value: float = 60.0, limit: float = 50.0) -> dict[str, Any]:
    """One objective of a verdict, on p99, with this status."""
    found = {"objective": f"p99:{limit:g}", "figure": "latency", "percentile": 99.0, "status": status}
    return {**found, "value": value, "limit": limit, "unit": "ms", "remedy": "fix it", "shown": None}


def result_of(
    histogram: Histogram,
    *,
    engine: str = "onnxruntime",
    workload: str = "ranking",
    rate: float = 100.0,
    errors: int = 0,
    top1: float = 1.0,
    failed: tuple[str, ...] = (),
    objective: str | None = None,
    partial: bool = False,
    joules: float | None = None,
    windows: Sequence[float] = STEADY,
    **changes: Any,
) -> Result:
    """A load result with these figures; `joules` for each inference, None: no meter; `windows` as shares of `rate`."""
    count = histogram.count
    names = ("completed", "other_load", "error_rate", "steady_state", "output_agreement")
    agreement = {
        "checked": 50,
        "samples": 16,
        "top1_samples": round(16 * top1),
        "top1_agreement": top1,
        "max_abs_error": 1e-6,
        "max_rel_error": 1e-5,
        "cosine_min": 0.999,
        "spread_error_max": 1e-6,
    }
    completed = round(rate * 10)
    evidence = Evidence(
        open_loop=False,
        measured_s=10.0,
        latency=histogram,
        service_time=histogram,
        scheduled=count + errors,
        completed=completed,
        good=completed,
        errors={"timeout": errors} if errors else {},
        agreement=agreement,
        energy=Energy(reason=NO_METER) if joules is None else Energy(joules=joules * completed),
        statistics="no statistics",
        generator=Generator(cpu_utilization=0.1, max_in_flight=1),
        cpu="not watched",
    )
    found = figures_of(evidence)
    found["throughput.requests"]["value"] = found["throughput.inferences"]["value"] = rate
    verdict: dict[str, Any] = {
        "valid": not failed,
        "objective": objective,
        "exit_code": 2 if failed else 4 if objective == "missed" else 0,
        "constraints": [
            {**NO_FIGURE, "name": name, "ok": name not in failed, "remedy": f"fix {name}" * (name in failed)}
            for name in names
        ],
        "objectives": [objective_of(objective)] if objective else [],
        "skipped": {},
    }
    outputs = {"tolerance": {"spread_rtol": 5e-3, "rtol": 1e-5}, "weights": "random"}
    meter = {"source": None, "boundary": None if joules is None else "cpu_package"}
    known = filled(
        LoadResult,
        created="2026-01-01T00:00:00+00:00",
        command=["servemark", "run"],
        request=msgspec.to_builtins(RunRequest(workload=workload, engine=engine)),
        resolved={"url": "http://127.0.0.1:1", "model": f"{workload}_{engine}", "windows": len(windows)},
        workload=workload,
        protocol="http",
        shared_memory="none",
        bottleneck={"by": None, "evidence": "nothing"},
        engine=engine,
        device="cpu",
        precision="fp32",
        batch_size=1,
        scenario=filled(Scenario, duration_s=10.0, measured_s=10.0, warmup_s=0.0),
        verdict=verdict,
        figures=found,
        details=filled(Details, outputs=outputs, energy=meter),
        windows=[
            filled(WindowFigures, start_s=float(n), requests_per_s=rate * share) for n, share in enumerate(windows)
        ],
        environment=ENVIRONMENT,
        partial=partial,
    )
    return {**known, **changes}


def saved(directory: Path, p50_ms: float, *, seed: int = 0, count: int = 2000, **figures: Any) -> Path:
    """Write a result directory."""
    histogram = histogram_of(latencies(p50_ms, count, seed=seed))
    directory.mkdir(parents=True)
    result = result_of(histogram, **({"rate": 1000 / p50_ms} | figures))
    results.write(directory, result, {"latency_us": histogram.encode()})
    return directory
