"""Runs of many cases: what is said meanwhile, what is kept, and how one that was ended goes on."""
