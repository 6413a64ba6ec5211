"""The zoo: one file per workload. `get` and `names` read the registry, which is discovered from the files."""

from servemark.agreement import Agreement
from servemark.models._registry import get, names, workloads
from servemark.models._spec import Quality, Sample, Slo, Tensor, Workload, stack

__all__ = ["Agreement", "Quality", "Sample", "Slo", "Tensor", "Workload", "get", "names", "stack", "workloads"]
