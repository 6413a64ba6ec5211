"""Locust's life cycle, statistics and web UI tied to a measurement."""
