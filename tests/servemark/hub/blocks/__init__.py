"""Descriptions of libraries' models."""
