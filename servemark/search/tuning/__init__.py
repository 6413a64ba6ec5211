"""The search for a model's best configuration: screen many candidates briefly, search the best few, decide in rounds.

It asks a bench for trials and knows no server. Its budget is the time that trials took, not a clock, and each of its
decisions follows from the trials before: with those of a journal it comes to the same place again. `tune_entry` is
such a search with real trials. Knows no command line.
"""

from servemark.search.tuning.search import tune
from servemark.search.tuning.session import tune_entry, write_tuning, write_winner
from servemark.search.tuning.space import Candidate, Space
from servemark.search.tuning.trial import Bench, CandidateScore, Objective, Trial, Tuning

__all__ = [
    "Bench",
    "Candidate",
    "CandidateScore",
    "Objective",
    "Space",
    "Trial",
    "Tuning",
    "tune",
    "tune_entry",
    "write_tuning",
    "write_winner",
]
