"""Layers and weights that several workloads share. Torch is imported inside functions only."""
