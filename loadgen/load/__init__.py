"""The load of a run: its resolved request, scenarios and arrival times. Sends nothing."""
