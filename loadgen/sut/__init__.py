"""MLPerf's system under test as two protocols: a target, and a channel to it. Imports nothing else of `loadgen`."""
