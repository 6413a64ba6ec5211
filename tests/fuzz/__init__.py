"""Hostile input for everything that reads what others wrote: servers' answers, and files."""
