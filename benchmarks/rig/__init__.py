"""What benchmarks share: servers, loads, pairs and meters."""
