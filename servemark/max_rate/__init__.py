"""The highest rate within an objective: the search, its refinement and its runs. Knows no command line."""
