"""Triton's side of an engine: requests to tensors and back. Runs inside Triton's Python stub; imports no `launch`."""
