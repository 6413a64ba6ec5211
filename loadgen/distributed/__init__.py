"""Several processes as one load generator: messages, clocks, merged records. Imports no `locust_bridge`."""
