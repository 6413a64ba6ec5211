"""The search for a model's best configuration: screen many candidates briefly, search the best few, decide in rounds.

It asks a bench for trials and knows no server. Its budget is the time that trials took, not a clock, and each of its
decisions follows from the trials before: with those of a journal it comes to the same place again. `tune_entry` is
such a search with real trials. Knows no command line.
"""

from servemark.search.tuning.session import tune_entry

__all__ = ["tune_entry"]
