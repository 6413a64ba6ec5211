"""Kernels: the operations that models are made of, timed one by one. `command` is `servemark kernels`.

`measurement/` defines a kernel and times it, `families/` are the operations, `suites/` tables of sizes. `libraries/`
compute the same elsewhere, `tracing/` finds the kernels of a workload, for which it asks the registry. `views/` show
a result, `tools/` check the method. Importing any of them loads no torch. They import no stage (loadgen, servers,
exporters) and no zoo; `command` alone imports servemark's command line.
"""
