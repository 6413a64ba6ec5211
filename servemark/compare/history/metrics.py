"""The figures that a history can follow, and how a result gives them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servemark.errors import OptionError
from servemark.results.schema.header import reason_of
from servemark.stats.percentiles import PERCENTILES, percentile_key, samples_needed


@dataclass(frozen=True)
class Metric:
    """A figure by its place in a result; `keys` lead to it."""

    name: str
    unit: str
    keys: tuple[str, ...]
    higher_is_worse: bool = True

    def of(self, result: Mapping[str, Any]) -> float | None:
        """Its value, None where the result has none above 0: only such have ratios."""
        found: Any = result
        for key in self.keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return float(found) if isinstance(found, int | float) and found > 0 else None

    def reason_in(self, result: Mapping[str, Any]) -> str | None:
        """Return the reason that a result gives for having none."""
        found: Any = result
        for key in self.keys[:-1]:
            found = found.get(key) if isinstance(found, Mapping) else None
        return reason_of(found, self.keys[-1]) if isinstance(found, Mapping) else None

    @property
    def requests_needed(self) -> int | None:
        """Requests without which it is not known; None where it does not depend on their number."""
        return next((samples_needed(each) for each in PERCENTILES if percentile_key(each) == self.keys[-1]), None)


_LATENCIES = ("mean", "p50", "p90", "p95", "p99", "p99_9", "max")
_LISTED = [
    *(Metric(f"latency_{key}", "ms", ("metrics", "latency_ms", key)) for key in _LATENCIES),
    *(Metric(f"service_time_{key}", "ms", ("metrics", "service_time_ms", key)) for key in ("mean", "p50", "p99")),
    Metric("inferences_per_s", "inferences/s", ("metrics", "throughput", "inferences_per_s"), higher_is_worse=False),
    Metric("requests_per_s", "requests/s", ("metrics", "throughput", "requests_per_s"), higher_is_worse=False),
    Metric("goodput", "requests/s", ("metrics", "throughput", "goodput"), higher_is_worse=False),
    Metric("max_rate", "requests/s", ("max_rate", "rate"), higher_is_worse=False),
    Metric("queue", "ms", ("metrics", "server", "queue_ms")),
    Metric("compute_infer", "ms", ("metrics", "server", "compute_infer_ms")),
    Metric("kernel_time", "ms", ("kernel_time",)),
    Metric("joules_per_inference", "J", ("metrics", "energy", "joules_per_inference")),
]
METRICS = {metric.name: metric for metric in _LISTED}


def metric(name: str) -> Metric:
    """Raises OptionError where there is none of the name."""
    if name not in METRICS:
        raise OptionError(f"--metric {name!r} is unknown", fix=f"one of: {', '.join(METRICS)}")
    return METRICS[name]
