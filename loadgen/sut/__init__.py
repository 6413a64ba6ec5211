"""MLPerf's system under test as two small protocols: a target, and a channel to it."""
