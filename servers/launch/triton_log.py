"""Triton's log while it starts: the reason why it does not take a model, which its repository index leaves out.

The index has the reason of a model whose backend refused it. A configuration that Triton itself refuses, and a model
without a version, only the log names.
"""

import contextlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from servemark.errors import MAX_QUOTED, ArtifactError

_REFUSAL = re.compile(r"""E\d{4} .*?\] "?(?:Poll failed for model directory|failed to load model) '(.+?)': (.*)""")
_PARSER = re.compile(r".*Error parsing text-format inference\.ModelConfig: (.*)")
"""Protobuf's own line, which comes before Triton's and says more."""


class TritonLog:
    """The log of one server, read as it grows."""

    def __init__(self, path: Path, repository: Path) -> None:
        self._path, self._repository = path, repository
        self._place = 0
        self._parser_words = ""

    def check(self, models: Sequence[str]) -> None:
        """Raise ArtifactError with Triton's words once it has refused one of the models."""
        for line in self._new_lines():
            if parsing := _PARSER.match(line):
                self._parser_words = parsing[1]
            elif (found := _REFUSAL.match(_plain(line))) and found[1] in models:
                raise self._refusal(found[1], self._parser_words or found[2])

    def _refusal(self, model: str, words: str) -> ArtifactError:
        return ArtifactError(
            f"Triton cannot load {model}: {words.strip()[: 2 * MAX_QUOTED]}",
            fix=f"correct {self._repository / model / 'config.pbtxt'}, or the folders of versions beside it",
        )

    def _new_lines(self) -> list[str]:
        """Read the whole lines that have been written since the last time."""
        with self._path.open("rb") as file:
            file.seek(self._place)
            whole, end, _ = file.read().rpartition(b"\n")
        self._place += len(whole) + len(end)
        return whole.decode(errors="replace").splitlines()


def _plain(line: str) -> str:
    """Return a line with its message as it was meant: Triton writes messages as JSON strings."""
    before, quote, message = line.partition('] "')
    with contextlib.suppress(ValueError):
        return f"{before}] {json.loads(f'{quote[-1:]}{message}')}"
    return line
