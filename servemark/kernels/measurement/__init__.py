"""What a kernel is, and how one is checked, timed and judged. Knows no family and no suite."""
