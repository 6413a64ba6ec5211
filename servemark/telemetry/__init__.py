"""Meters of this machine that are read during a run. Imports no stage."""
