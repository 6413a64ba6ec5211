"""The load generator and its peers in turns: `python -m benchmarks.generator all`."""
