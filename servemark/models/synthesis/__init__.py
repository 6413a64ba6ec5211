"""Seeded inputs with the statistics of real ones: images, speech, text. Numpy only."""
