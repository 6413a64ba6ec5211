"""Encodings of tensors: raw bytes, JSON, and JSON answers that are compared instead of parsed."""
