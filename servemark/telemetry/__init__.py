"""What is read while something runs: meters of this machine. Imports no stage."""
