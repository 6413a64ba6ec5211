"""Which kernels a model executes, how often, and what of its time they explain."""
