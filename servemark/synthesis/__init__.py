"""A synthetic network whose layers match the statistics of given workloads, after AI Matrix's method."""
