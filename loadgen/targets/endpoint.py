"""A model behind an HTTP endpoint that a document describes."""

import functools
from collections.abc import Callable
from typing import Any

from loadgen.endpoints.endpoint import over_http
from loadgen.endpoints.messages import AnswerChecker, Encoder, check_outputs, path_of, require_outputs
from loadgen.kserve.control import Control
from loadgen.load.load_config import LoadConfig
from loadgen.targets.http import HttpTarget, header_fields
from loadgen.transport.server_url import authority
from loadgen.transport.server_url import path_of as url_path
from servemark.workload import Arrays


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
