"""Faults that a load generator should survive, each injected into a real run: `python -m tests.faults`.

Stands on the tests' servers: the golden one, and raw sockets. Imports no other benchmark.
"""
