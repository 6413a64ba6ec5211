"""Frameworks: how each is imported, and what exporters and engines share of it. Imports no stage."""
