"""Saved results as numpy arrays: every request, and every figure over time, whether kept as text or as Parquet."""

from servemark.library.arrays import Requests, TimeSeries, read_requests, read_series

__all__ = ["Requests", "TimeSeries", "read_requests", "read_series"]
