"""Programs of the checkout: the method against PyTorch's own timer and against itself, and pages of docs."""
