"""A model behind an HTTP endpoint that a document describes, and connections to it."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.endpoints.endpoint import over_http
from loadgen.endpoints.messages import AnswerChecker, Encoder, check_outputs, path_of, require_outputs
from loadgen.kserve.control import Control
from loadgen.kserve.http_connection import Connection, Response
from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import Answer
from loadgen.targets.http import HttpTarget, header_fields
from loadgen.transport.server_url import authority
from loadgen.transport.server_url import path_of as url_path
from loadgen.transport.tcp import Address
from servemark.workload import Arrays, Tensor


@dataclass(frozen=True, slots=True)
class DescribedAnswer:
    """A complete answer, already judged, with the checker that can decode it."""

    response: Response
    error: str | None
    checker: AnswerChecker

    @property
    def size(self) -> int:
        return self.response.size

    def message(self) -> str:
        return self.response.message()

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:
        return self.checker.decoded(self.response.body, outputs)


class EndpointConnection(Connection):
    """A connection whose answers are decoded as the endpoint's description says."""

    __slots__ = ("_described",)

    def __init__(self, address: Address, checker: AnswerChecker) -> None:
        super().__init__(address, checker)
        self._described = checker

    def readable(self) -> Answer | None:
        response = super().readable()
        if not isinstance(response, Response):
            return None
        error = response.error
        if error is None and self.payload is not None and not self.payload.plain:
            # Its values will be read, and numbers that were only counted may be none.
            error = self._described.judge_values(response.body)
        return DescribedAnswer(response, error, self._described)


class EndpointTarget(HttpTarget):
    """A server at a URL, asked as the document that --endpoint-type names describes. Raises as `endpoint_of`."""

    def __init__(self, config: LoadConfig) -> None:
        self._endpoint = over_http(config.server.endpoint_type)
        require_outputs(config.workload)
        path_of(self._endpoint, config.model, config.server.model_version)
        if pointed := self._endpoint.answer.outputs:
            check_outputs(config.server.endpoint_type, config.workload, pointed)
        checker = functools.partial(AnswerChecker, answer=self._endpoint.answer)
        super().__init__(config, checker)
        self.channel_class = EndpointConnection

    def _choose_formats(self) -> None:
        """Nothing: the description says how values are written."""

    def _encoder(self, control: Control) -> Callable[[Arrays], Any]:
        config = self._config
        return Encoder(
            self._endpoint,
            config.workload,
            authority(control.url),
            config.model,
            root=url_path(control.url),
            version=config.server.model_version,
            headers=header_fields(config),
        )
