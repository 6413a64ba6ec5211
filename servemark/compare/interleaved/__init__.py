"""Engines compared in interleaved rounds, with intervals for their ratios.

`compare_engines(Request(...))` prepares, measures and writes; its `Comparison` has the document. Knows no command line.
"""

from servemark.compare.interleaved.preparation import Request
from servemark.compare.interleaved.run import Comparison, compare_engines

__all__ = ["Comparison", "Request", "compare_engines"]
