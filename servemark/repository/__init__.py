"""Entries of the model repository: their files and their config.pbtxt. Imports no stage."""
