"""The first answer of the measured interval to each labelled example, kept until the run is over. Off the hot path."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from loadgen.sut.channel import Answer, Outcome

INTERRUPTED = "interrupted"


class Kept(NamedTuple):
    """An answer, and which of its rows is the example's; `error` where the request failed."""

    answer: Answer | None
    row: int
    error: str | None


@dataclass
class LabelledAnswers:
    """Answers by the numbers of their examples.

    One of each: an example that is sent again and again tells no more, and memory stays bounded by the requests that
    were made ahead.
    """

    kept: dict[int, Kept] = field(default_factory=dict)

    def seen(
        self, on_request: Callable[[Outcome, str], None], interval_start: Callable[[], int]
    ) -> Callable[[Outcome, str], None]:
        """Wrap a handler so that labelled outcomes are seen first."""

        def see(outcome: Outcome, words: str) -> None:
            examples = outcome.payload.examples
            if examples and outcome.scheduled >= interval_start() and outcome.error != INTERRUPTED:
                for row, example in enumerate(examples):
                    if example not in self.kept:
                        self.kept[example] = Kept(outcome.response, row, outcome.error)
            on_request(outcome, words)

        return see
