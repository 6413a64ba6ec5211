"""A plan of a scenario as the settings of MLCommons' LoadGen."""

from typing import TYPE_CHECKING

from servemark.errors import ServerError
from servemark.results.schema.mlperf import Plan

if TYPE_CHECKING:
    import mlperf_loadgen

MULTI_STREAM_SAMPLES = 8
"""Samples of a MultiStream query (rules, "Scenarios")."""


def settings_of(plan: Plan) -> "mlperf_loadgen.TestSettings":
    """Return a plan as LoadGen's settings: where it bounds the latency, that of Server, which alone needs it."""
    import mlperf_loadgen

    chosen = mlperf_loadgen.TestSettings()
    chosen.scenario = getattr(mlperf_loadgen.TestScenario, plan["scenario"])
    mode = mlperf_loadgen.TestMode
    chosen.mode = mode.AccuracyOnly if plan.get("accuracy") else mode.PerformanceOnly
    chosen.min_duration_ms = round(plan["min_duration_s"] * 1e3)
    chosen.min_query_count = plan["min_queries"]
    chosen.server_target_qps = chosen.offline_expected_qps = plan["expected_qps"]
    if plan["latency_ms"] is not None and plan["percentile"] is not None:
        chosen.server_target_latency_ns = round(plan["latency_ms"] * 1e6)
        chosen.server_target_latency_percentile = plan["percentile"] / 100
    chosen.single_stream_expected_latency_ns = round(plan["expected_latency_ms"] * 1e6)
    chosen.multi_stream_expected_latency_ns = round(plan["expected_latency_ms"] * 1e6)
    chosen.multi_stream_samples_per_query = MULTI_STREAM_SAMPLES
    for offset, name in enumerate(("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")):
        setattr(chosen, name, plan["seed"] * 3 + offset)
    return chosen


def require_loadgen() -> None:
    """Check that LoadGen is installed. Raises ServerError."""
    try:
        import mlperf_loadgen  # noqa: F401
    except ImportError as error:
        raise ServerError(f"LoadGen cannot be imported: {error}", fix="pip install -e '.[mlperf]'") from error
