"""servemark measured against its peers; one command for each benchmark, `python -m benchmarks.<name>`."""
