"""What serving costs: Triton, its Python backend, and engines in-process."""
