"""Steps that every export shares: job, parity, provenance, config.pbtxt, registry. Imports no engine by name."""
