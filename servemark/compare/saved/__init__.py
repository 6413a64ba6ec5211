"""Saved results compared with a baseline. Measures nothing."""
