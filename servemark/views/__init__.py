"""Reports: pure functions over saved results."""
