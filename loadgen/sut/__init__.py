"""MLPerf's system under test as two base classes: a target, and a channel to it. Imports nothing else of `loadgen`."""
