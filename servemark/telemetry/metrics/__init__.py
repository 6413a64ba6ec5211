"""Metrics of a run while it goes on: a catalog, snapshots of a run, and what exposes and sends them to others.

A process of its own does the work. A thread beside the one that sends would hold Python's lock for milliseconds at each
scrape, and without the sender's real-time priority for longer. Imports no stage: what a run knows is handed in.
"""
