"""Workloads: their description, and the registry that finds those of `servemark.models`. Imports no stage or torch."""

from servemark.results.objectives import Slo
from servemark.workload.agreement import Agreement
from servemark.workload.registry import UnknownWorkloadError, get, names, workloads
from servemark.workload.spec import Example, InOrder, LabelledSet, Module, Quality, Variant, Workload, define
from servemark.workload.tensor import (
    Arrays,
    Engine,
    Sample,
    Tensor,
    elements,
    numbers,
    read_npz,
    stack,
    whole_numbers,
    write_npz,
)

__all__ = [
    "Agreement", "Arrays", "Engine", "Example", "InOrder", "LabelledSet", "Module", "Quality", "Sample", "Slo",
    "Tensor", "UnknownWorkloadError", "Variant", "Workload", "define", "elements", "get", "names", "numbers",
    "read_npz", "stack", "whole_numbers", "workloads", "write_npz",
]  # fmt: skip
