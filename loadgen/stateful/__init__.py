"""Requests that are not one request with one answer: those of a sequence, and those that several answers follow.

Both are classes of channels and what records them. An ordinary run has neither, and pays nothing for them.
"""
