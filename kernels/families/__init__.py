"""Families of kernels. Each module is one family: a dataclass of its sizes, the only class of it."""
