"""Blocks of a page, and the page: self-contained, every word escaped. Knows no documents."""
