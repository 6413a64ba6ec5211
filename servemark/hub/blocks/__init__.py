"""Descriptions of libraries' models, and the requests that fit them."""
