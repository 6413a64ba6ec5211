"""Registry of the metrics: every module of `servemark.quality.metrics` has `METRICS`."""

import importlib
import pkgutil
from functools import cache

from servemark.errors import OptionError
from servemark.quality.metric import Metric


@cache
def metrics() -> dict[str, Metric]:
    """Return all metrics by the name of their first figure, as `Quality.metric` of a workload gives it."""
    package = importlib.import_module("servemark.quality.metrics")
    found: dict[str, Metric] = {}
    for module in pkgutil.iter_modules(package.__path__):
        for metric in importlib.import_module(f"{package.__name__}.{module.name}").METRICS:
            found[metric.figures[0]] = metric
    return found


def metric_named(name: str) -> Metric:
    """Look up a metric. Raises OptionError."""
    if name not in metrics():
        raise OptionError(f"there is no metric {name!r}", fix=f"one of: {', '.join(sorted(metrics()))}")
    return metrics()[name]
