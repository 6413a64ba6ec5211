"""What every export goes through: job, provenance, config.pbtxt, parity, registry of engines."""
