"""The event loop that sends requests when they are due and reads answers. Imports no protocol and no run."""
