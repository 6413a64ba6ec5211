"""Quality of the answers: labelled examples are sent, and their answers are scored by the field's metric.

A file of `metrics/` holds those of a subject. Imports the description of workloads, no stage.
"""
