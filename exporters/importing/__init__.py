"""Importing: a model file of the user's becomes a workload, with golden answers of the format's own runtime.

One module for each format, which reads what the file says of itself without running code of it. `model` does the rest.
"""
