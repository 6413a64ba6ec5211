"""Parts that the benchmarks share: servers, loads, pairs and meters. Imports no benchmark."""
