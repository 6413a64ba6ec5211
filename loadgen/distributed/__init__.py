"""Several processes as one load generator: what master and workers say to each other, and their records merged."""
