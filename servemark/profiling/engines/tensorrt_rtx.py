"""TensorRT-RTX: its layer profiler, which is TensorRT's."""

from servemark.profiling.engines.tensorrt import Profiler

__all__ = ["Profiler"]

PROFILERS = {"cuda": "TensorRT-RTX's layer profiler (IProfiler)"}
NO_STEPS = "TensorRT-RTX reports no order of a loop's rounds"
