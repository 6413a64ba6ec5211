"""Settings for MLCommons' LoadGen: a scenario and its parameters."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from servemark.documents.commands import MlperfScenario
from servemark.errors import ServerError
from servemark.results.schema.mlperf import Plan

if TYPE_CHECKING:
    import mlperf_loadgen

MULTI_STREAM_SAMPLES = 8
"""Samples of a MultiStream query (rules, "Scenarios")."""


@dataclass(frozen=True)
class MlperfPlan:
    """Settings for LoadGen; `latency_ms` and `percentile` bound the latency of Server, which alone needs them."""

    scenario: MlperfScenario
    expected_qps: float
    """Server: the rate of the arrivals. Offline: what may be reached at most, from which LoadGen sizes its query."""
    expected_latency_ms: float
    """SingleStream and MultiStream: what a query takes at least, from which LoadGen counts its queries."""
    min_duration_s: float
    min_queries: int
    latency_ms: float | None
    percentile: float | None
    seed: int
    accuracy: bool = False
    """Each sample once, its answer in LoadGen's accuracy log; no duration and no latency counts."""
    bound_from: str | None = None
    """Origin of the bound: the flag, or the workload."""

    def to_dict(self) -> Plan:
        """As result.json holds it."""
        return {
            "scenario": self.scenario.value,
            "expected_qps": self.expected_qps,
            "expected_latency_ms": self.expected_latency_ms,
            "min_duration_s": self.min_duration_s,
            "min_queries": self.min_queries,
            "latency_ms": self.latency_ms,
            "percentile": self.percentile,
            "bound_from": self.bound_from,
            "seed": self.seed,
            "accuracy": self.accuracy,
        }

    def settings(self) -> "mlperf_loadgen.TestSettings":
        """The same as LoadGen's settings."""
        import mlperf_loadgen

        chosen = mlperf_loadgen.TestSettings()
        chosen.scenario = getattr(mlperf_loadgen.TestScenario, self.scenario.value)
        mode = mlperf_loadgen.TestMode
        chosen.mode = mode.AccuracyOnly if self.accuracy else mode.PerformanceOnly
        chosen.min_duration_ms = round(self.min_duration_s * 1e3)
        chosen.min_query_count = self.min_queries
        chosen.server_target_qps = chosen.offline_expected_qps = self.expected_qps
        if self.latency_ms is not None and self.percentile is not None:
            chosen.server_target_latency_ns = round(self.latency_ms * 1e6)
            chosen.server_target_latency_percentile = self.percentile / 100
        chosen.single_stream_expected_latency_ns = round(self.expected_latency_ms * 1e6)
        chosen.multi_stream_expected_latency_ns = round(self.expected_latency_ms * 1e6)
        chosen.multi_stream_samples_per_query = MULTI_STREAM_SAMPLES
        for offset, name in enumerate(("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")):
            setattr(chosen, name, self.seed * 3 + offset)
        return chosen


def require_loadgen() -> None:
    """Check that LoadGen is installed. Raises ServerError."""
    try:
        import mlperf_loadgen  # noqa: F401
    except ImportError as error:
        raise ServerError(f"LoadGen cannot be imported: {error}", fix="pip install -e '.[mlperf]'") from error
