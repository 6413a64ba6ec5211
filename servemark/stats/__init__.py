"""Statistics: histograms, percentiles, order statistics and ratios with their intervals. Imports only errors."""
