"""Measuring the meter: load generators against a server whose delays are known."""
