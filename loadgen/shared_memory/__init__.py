"""Tensors in memory that a server sees too: regions, places in them, and how each protocol names places."""
