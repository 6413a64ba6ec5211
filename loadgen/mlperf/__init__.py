"""MLPerf's own LoadGen on a target. LoadGen is imported when it runs; imports no `evaluation`."""
