"""Documents as tables on the terminal. Reads documents only."""
