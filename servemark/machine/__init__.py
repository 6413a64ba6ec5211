"""This machine: cores, memory, GPUs and its environment. Imports no stage."""
