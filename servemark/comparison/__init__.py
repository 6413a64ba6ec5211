"""Contenders side by side in interleaved rounds. Knows no command line."""
