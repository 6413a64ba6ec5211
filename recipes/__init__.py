"""Training from data that can be had: plain PyTorch, seeded, minutes on a CPU. `python -m recipes.all` runs all.

A recipe chooses its epoch on a validation split. The test examples of `servemark quality` are never looked at.
"""
