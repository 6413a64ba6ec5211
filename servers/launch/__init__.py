"""A server as a process: ports, start, readiness, guard and reloading. Imports no mode."""
