"""The zoo: one file per workload, found by `servemark.workload`. They share `blocks` and `synthesis`."""
