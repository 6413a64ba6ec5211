"""Profiles: one warm inference by operator and layer, from each engine's own profiler, and its memory."""
