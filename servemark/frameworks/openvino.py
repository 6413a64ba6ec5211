"""OpenVINO: where its file says what the model is to be computed in."""

PRECISION_INFO = ["servemark", "inference_precision"]
"""Written by the exporter, read when the model is compiled: the representation itself has no bf16."""
