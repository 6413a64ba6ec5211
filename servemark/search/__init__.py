"""Searches that make many runs: the highest rate within an objective, the best configuration of a model."""
