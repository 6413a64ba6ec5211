"""MLPerf's own LoadGen on a target."""
