"""A figure over all saved results: where it changed, and between which commits. Reads documents only."""
