"""One measured interval: warm-up, recorder, windows, readings at its boundaries."""
