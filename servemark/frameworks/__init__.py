"""Frameworks: how each is imported, and what exporters and engines share of it. Imports no stage."""

OPENVINO_PRECISION = ["servemark", "inference_precision"]
"""Where OpenVINO's file says what the model is to be computed in, since the representation itself has no bf16: written
by the exporter, read when the model is compiled."""
