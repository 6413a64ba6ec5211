"""Processes of this machine: all of them by number, and those that generate the load."""
