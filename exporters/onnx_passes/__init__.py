"""Rewrites of an ONNX graph: precisions, quantisation and recurrences. Imports nothing else of `exporters`."""
