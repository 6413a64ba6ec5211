"""Kernels: the operations that models are made of, timed one by one. Each module is a family, and defines one `KERNEL`.

`measurement/` says what a kernel is and times it, `suites/` holds tables of sizes, `libraries/` compute the same
elsewhere. `tracing/` finds the kernels of a workload, for which it asks the registry. A family is found by its file.
Importing any of them loads no torch. They import no stage (loadgen, servers, exporters) and no zoo.
"""
