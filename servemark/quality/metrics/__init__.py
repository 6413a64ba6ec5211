"""The metrics: every module has `METRICS` of one subject, and imports what is heavy in their methods."""

from functools import cache

from servemark.errors import OptionError
from servemark.plugins import modules_of
from servemark.quality.metric import Metric


@cache
def metrics() -> dict[str, Metric]:
    """Return all metrics by the name of their first figure, as `Quality.metric` of a workload gives it."""
    modules = modules_of("servemark.quality.metrics").values()
    return {metric.figures[0]: metric for module in modules for metric in module.METRICS}


def metric_named(name: str) -> Metric:
    """Look up a metric. Raises OptionError."""
    if name not in metrics():
        raise OptionError(f"there is no metric {name!r}", fix=f"one of: {', '.join(sorted(metrics()))}")
    return metrics()[name]
