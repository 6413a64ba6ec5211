"""Suites, one file each: what one publishes of its workloads, or the names of those that it consists of.

A suite of names takes libraries' models among the zoo's, so that nothing of them is imported before it is asked for.
"""

from servemark.workload.spec import SEPARATOR
from servemark.workload.suites import mlperf_inference, today

BY_NAME = {
    "mlperf-inference": (mlperf_inference.LABEL, tuple(mlperf_inference.WORKLOADS)),
    "today": (today.LABEL, today.WORKLOADS),
}
"""Suites that name their workloads: the label, and the names as every command takes them."""


def labels_of(name: str) -> tuple[str, ...]:
    """Return the labels of the suites that name a workload, by its name in paths."""
    return tuple(label for label, names in BY_NAME.values() if name in (each.replace("/", SEPARATOR) for each in names))
