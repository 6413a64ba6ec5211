"""Entries of the model repository: their files, their config.pbtxt, and how their outputs agree. Starts nothing."""
