"""servemark measured against its peers; one command for each benchmark, `python -m benchmarks.<name>`.

The zoo itself is measured by `servemark suite all`, whose suite.md is kept as docs/results/zoo.txt.
"""
