"""The event loop that sends requests when they are due and reads answers. Knows no run."""
