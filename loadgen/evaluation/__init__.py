"""Evaluation turns a measurement into the result: figures, observations, verdict. Sends nothing."""
