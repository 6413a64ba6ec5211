"""The zoo: one file for each workload, found by `servemark.workload`, over shared blocks. Imports no stage."""
