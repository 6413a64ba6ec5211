"""Kernels that a model executes, their counts, and their shares of its time."""
