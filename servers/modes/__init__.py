"""Ways to start a Triton: the embedded one, one on PATH, one in Docker. One module each; none imports another."""
