"""What was measured becomes the result: figures, observations, verdict. Sends nothing."""
