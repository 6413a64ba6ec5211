"""What every export goes through: job, parity, provenance, config.pbtxt, registry. Imports no engine by name."""
