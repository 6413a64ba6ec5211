"""Kernels: the operations that models are made of, timed one by one. Each module is a family, and defines one `KERNEL`.

`measurement/` says what a kernel is and times it; `suites/` holds tables of sizes. A family is found by its file.
Importing any of them loads no torch. They import no stage (loadgen, servers, exporters) and no zoo.
"""
