"""Tensors in memory that the server sees too: regions, slots, and how a protocol names them. Imports no target."""
