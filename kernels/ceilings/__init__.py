"""The highest rates of a device, measured part by part and kept for the next run. Knows no suite."""
