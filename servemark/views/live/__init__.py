"""A run in progress on the terminal: a screen, and what feeds it. Imports no page."""
