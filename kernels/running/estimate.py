"""Estimated time of a case, for the total before a run and for the remaining time."""

from kernels.measurement.case import Case, Method, refusal
from kernels.measurement.device import Device
from servemark.results.schema.kernels import Ceiling

START_S = 5.0
"""PyTorch's import, in the case process."""
FIXED_S = 2.0
"""Time of a case whatever its size (s)."""
CALLS = 10
"""Time of a large case, in calls."""
NOTHING_S = 0.001
SLOW_TFLOPS, SLOW_GBPS, SLOW_CALL_US = {"cpu": 0.03, "gpu": 5.0}, {"cpu": 5.0, "gpu": 300.0}, 10.0
"""A modest core, or GPU, as long as no ceiling is known."""


def case_cost_s(case: Case, ceiling: Ceiling | None, method: Method) -> float:
    """Estimate the time of a case (s). Without a ceiling a modest device is assumed."""
    if refusal(case, method.device):
        return NOTHING_S
    call_s = max(case.floor_s(ceiling or _modest(method.device), method.cache).values())
    return NOTHING_S if call_s * CALLS > method.limit_s else FIXED_S + CALLS * call_s


def _modest(device: Device) -> Ceiling:
    kind = "gpu" if device.is_gpu else "cpu"
    cores = 1 if device.is_gpu else device.cores
    return {
        "precision": "fp32",
        "tflops": SLOW_TFLOPS[kind] * cores,
        "tflops_of": "",
        "bandwidths": [{"mib": 0.0, "gbps": SLOW_GBPS[kind], "of": ""}],
        "call_us": SLOW_CALL_US,
        "vendor_tflops": None,
        "vendor_gbps": None,
    }
