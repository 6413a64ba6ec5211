"""Suites characterised: features of each workload, clusters, and the few that stand for all, tested."""
