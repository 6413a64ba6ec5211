"""Families of kernels. Each module is one family: a dataclass of its sizes, which `KERNEL` names."""
