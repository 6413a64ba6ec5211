"""Campaigns: measurements that consist of many turns.

A journal in the folder has what was asked for, then each turn's outcome, on disk before the next turn begins. What is
measured next follows from the outcomes before. So a campaign that goes on after an end comes to the same place again: a
turn that the journal holds is not made a second time.
"""

from servemark.campaign.turns import ANEW, GOES_ON, INTERRUPTED, Campaign, Progress, Turn, asked_of, interleaved

__all__ = ["ANEW", "GOES_ON", "INTERRUPTED", "Campaign", "Progress", "Turn", "asked_of", "interleaved"]
