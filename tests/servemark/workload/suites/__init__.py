"""Suites: what they name, and the settings of those that have some."""
