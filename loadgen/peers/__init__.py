"""Other load generators, to compare with: where each is found, how it is told a load, and what it reports."""
