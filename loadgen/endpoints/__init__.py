"""Servers that speak something else than KServe v2: a JSON document describes their request and their answer."""
