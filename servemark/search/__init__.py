"""Searches that make many runs: the highest rate within an objective, the best configuration of a model.

`max_rate` finds the highest rate with real runs: `posterior` chooses each rate, `refinement` finds a rate again in
rounds. `tuning` finds the best configuration with real trials: `stages` screens many candidates briefly, searches the
best few, and decides in rounds. Its budget is the time that trials took, not a clock, and each of its decisions follows
from the trials before: with those of a journal it comes to the same place again.
"""
