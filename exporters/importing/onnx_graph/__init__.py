"""Reading of an ONNX graph beyond its tensors: its parts, what it counts, and where its operators change."""
