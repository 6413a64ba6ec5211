"""`servemark kernels` against PyTorch's own timer, and against itself."""
