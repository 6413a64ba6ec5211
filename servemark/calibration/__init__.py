"""Calibrations: load generators against a server whose delays are known."""
