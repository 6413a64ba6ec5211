"""How tensors travel: their values as raw bytes and as JSON, and JSON answers that are not parsed each time."""
