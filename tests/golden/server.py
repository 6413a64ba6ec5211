"""The golden server as the tests need it: any model, every kind of broken answer, TLS.

In a test:

    with GoldenServer(delay_s=0.005, error_every=10) as server:
        ...  # send requests to server.url
        assert len(server.log()["requests"]) == sent
"""

import socket
import ssl
from typing import Any

from servemark.calibration.golden import server
from tests.golden.behaviour import Behaviour
from tests.golden.service import Connection, Service


def tls(behaviour: Behaviour) -> ssl.SSLContext | None:
    """The context of a server with a certificate."""
    if not behaviour.certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=behaviour.client_ca or None)
    context.load_cert_chain(behaviour.certificate)
    context.verify_mode = ssl.CERT_REQUIRED if behaviour.client_ca else ssl.CERT_NONE
    return context


def unix_sockets(behaviour: Behaviour) -> list[socket.socket]:
    """The socket at a path, where there is one."""
    if not behaviour.unix:
        return []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(behaviour.unix)
    listener.listen(128)
    return [listener]


class GoldenServer(server.GoldenServer):
    """A golden server in its own process, for the length of a `with` block; takes the fields of Behaviour."""

    def __init__(self, **behaviour: Any) -> None:
        # A mistake in the behaviour shows here, not in the child's log.
        super().__init__(Behaviour(**behaviour), "tests.golden.server")

    def requests(self) -> list[dict[str, Any]]:
        """The inference requests of the log, in order of arrival: see Entry."""
        requests: list[dict[str, Any]] = self.log()["requests"]
        return requests


if __name__ == "__main__":
    server.main(Behaviour, Service, Connection, tls, unix_sockets)
