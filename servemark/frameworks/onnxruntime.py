"""ONNX Runtime's settings that its exporter and its engine share."""

FP16_ON_CPU = ("optimization.disable_specified_optimizers", "MatmulTransposeFusion")
"""On some models ONNX Runtime 1.31 ends in a segmentation fault with both this fusion and the widening of weights."""
