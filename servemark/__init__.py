"""servemark: which engine and hardware serves this model within its latency objective, at what rate, at what energy."""

__version__ = "0.1.0"
