"""This machine: its cores, memory, GPUs and what its environment says. Imports nothing of the stages."""
