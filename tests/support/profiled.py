"""A profile of two engines with known figures, made up."""

from typing import Any

from servemark.profiling.document import engine_profile, failed
from servemark.profiling.measure import Measured, Order
from servemark.profiling.run import begin
from servemark.profiling.timeline import Event, Inference, with_steps
from servemark.results.schema.profile import ProfiledMemory

EVENTS = [
    Event("conv", "Conv", 0.0, 400.0, "layer1.0", flops=80_000_000, bytes=400_000),
    Event("relu", "Relu", 410.0, 90.0, "layer1.0", flops=0, bytes=200_000),
    Event("odd", "Frobnicate<b>", 500.0, 100.0),
    Event("loop", "Loop", 600.0, 300.0),
    Event("step_product", "MatMul", 610.0, 100.0, "decoder", flops=1000, bytes=500),
    Event("step_product", "MatMul", 750.0, 100.0, "decoder", flops=1000, bytes=500),
]
"""Two rounds of a loop, and an operator that nobody knows: 890 us in operators of an inference of 1 ms."""


def measured(seconds: float = 1e-3) -> Measured:
    """Figures of an engine's process."""
    cost: Any = {"rounds": 7, "plain_ms": 0.9, "profiled_ms": 1.0, "ratio": 1.11, "ci95": [1.05, 1.2]}
    counters: Any = {"ipc": 1.5, "top_down": None, "top_down_reason": "no Intel", "gpu": None, "gpu_reason": "a CPU"}
    return Measured("CPUExecutionProvider", "a profiler", Inference(seconds, with_steps(EVENTS)), cost, counters)


def memory(batch: int, answered: float = 180.0) -> ProfiledMemory:
    """Memory at a batch size."""
    return {
        "batch_size": batch,
        "start_mib": 50.0,
        "imported_mib": 80.0,
        "loaded_mib": 150.0,
        "answered_mib": answered,
        "peak_mib": answered + 5,
        "artifact_mib": 60.0,
        "parts": [{"part": "engine's libraries", "mib": 30.0}, {"part": "weights", "mib": 100.0 + answered - 180.0}],
    }


def profile_of(order: Order, ceiling: Any = None) -> dict[str, Any]:
    """The document of an engine that was profiled, and of one that was not."""
    done = engine_profile("onnxruntime", measured(), ceiling, [memory(1), memory(8, 240.0)])
    return {
        **begin(order),
        "ceiling": ceiling,
        "engines": [done, failed("openvino", "it is not there")],
        "partial": False,
    }
