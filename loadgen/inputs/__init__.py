"""Where the values of requests come from: drawn at random, files, a workload's own. Imports no target and no run."""
