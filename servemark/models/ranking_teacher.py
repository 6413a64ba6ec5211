"""The teacher of Ranking Distillation (AIBench DC-AI-C16): `ranking` with embeddings of width 100.

AIBench's code trains it by default, and its profile is of it: "L=5, d=100, nh=16, nv=2", 5,583,500 parameters.
"""

from servemark.models import ranking
from servemark.models.ranking import Sizes
from servemark.workload import Variant

WORKLOAD = ranking.ranker(
    "ranking_teacher",
    "Ranking distillation teacher (Caser)",
    suites=("AIBench DC-AI-C16, variant",),
    origin="The authors' teacher, which AIBench's own code runs. The report's 0.09 million FLOPs are its 85,000 "
    "multiply-adds without the scores of all items.",
    full=Variant(Sizes(width=100), parameters=5_583_500, flops=5_773_200),
)
