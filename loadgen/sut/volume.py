"""Bytes of requests and answers with compression and without it."""

from dataclasses import dataclass


@dataclass
class Volume:
    """Sums over the distinct requests, which are made before the run, and over all answers that came compressed."""

    requests: int = 0
    request_bytes: int = 0
    sent_bytes: int = 0
    """The same requests as they travel."""
    answers: int = 0
    answer_bytes: int = 0
    received_bytes: int = 0
    """The same answers as they came."""

    def request(self, plain: int, sent: int) -> None:
        """Count a request that was made."""
        self.requests += 1
        self.request_bytes += plain
        self.sent_bytes += sent

    def answer(self, received: int, plain: int) -> None:
        """Count an answer that came compressed."""
        self.answers += 1
        self.received_bytes += received
        self.answer_bytes += plain
