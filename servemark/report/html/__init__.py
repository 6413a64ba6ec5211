"""Documents as pages with plots. Reads documents only."""
