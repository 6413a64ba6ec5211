"""How right the answers are: labelled examples are sent, and their answers scored by the field's metric.

A metric is one file of `metrics/`. Imports the description of workloads, no stage.
"""
