"""The metrics, one file for each family, found by `servemark.quality.registry`. Heavy imports live in their methods."""
