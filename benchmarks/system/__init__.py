"""Cost of serving: Triton, its Python backend, and engines in-process."""
