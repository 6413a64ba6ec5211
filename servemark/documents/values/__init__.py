"""Values of flags that are more than a number: how they are written, and how they are read."""
