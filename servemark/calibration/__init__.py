"""Measuring the meter: load testers against a server whose delays are known."""
