"""Frameworks: how each is imported, in an order that works, and its constants."""
