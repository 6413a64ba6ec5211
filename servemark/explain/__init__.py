"""Explanation of a run's tail: each request's steps on both sides, the queue replayed, the machine beside them.

Pure functions over arrays, but for `capture`, which runs a load with what they need. Times are ns of the monotonic
clock, which all processes of a machine share.
"""
