"""Models of libraries by name."""
