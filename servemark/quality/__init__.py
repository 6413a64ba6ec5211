"""Quality of the answers: labelled examples are sent, and their answers are scored by the field's metric.

A metric is one file of `metrics/`. Imports the description of workloads, no stage.
"""
