"""Comparisons: engines in interleaved rounds, saved results with a baseline, a figure over all saved results."""
