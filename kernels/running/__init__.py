"""Runs of many cases: progress, the result after each case, and going on with a run that was ended."""
