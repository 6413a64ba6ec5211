"""Planted causes of slow requests, and how often `servemark explain` names them: `python -m benchmarks.explain`."""
