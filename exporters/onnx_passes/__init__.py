"""Rewrites of an ONNX graph: precisions, quantisation and recurrences."""
