"""Observer of runs: gets their figures and their words while they go on. The caller decides who shows them."""

from contextlib import AbstractContextManager
from typing import Protocol


class Observer(Protocol):
    """Takes the figures of runs while they go on, and their words, so that they show nothing themselves."""

    words: int
    """Descriptor of a pipe that takes what a run writes."""

    def started(self, *names: str) -> None:
        """These runs go on from now, and no others."""

    def figures_of(self, name: str) -> AbstractContextManager[int]:
        """Start the run of this name in the block, which gives a pipe for `LiveFigures`, one JSON document a line.

        The run has ended when the pipe is closed.
        """

    def say(self, line: str) -> None:
        """Take a line about what goes on."""
