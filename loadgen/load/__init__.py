"""What is asked for: flags, configuration, scenarios and arrival times. Sends nothing."""
