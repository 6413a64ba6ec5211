"""Sources of the values of requests: random, files, a workload's own samples. Imports no target and no run."""
