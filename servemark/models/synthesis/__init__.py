"""Seeded inputs with the statistics of real ones: pictures, popularity, speech, text. Imports numpy, no torch."""
