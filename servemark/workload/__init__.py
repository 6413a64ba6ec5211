"""What a workload is, and the registry that finds those of `servemark.models`."""

from servemark.workload.agreement import Agreement
from servemark.workload.registry import get, names, workloads
from servemark.workload.spec import Quality, Sample, Slo, Tensor, Workload, stack

__all__ = ["Agreement", "Quality", "Sample", "Slo", "Tensor", "Workload", "get", "names", "stack", "workloads"]
