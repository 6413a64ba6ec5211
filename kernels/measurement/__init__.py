"""Definition of a kernel, and its check, timing and judgement. Knows no family and no suite."""
