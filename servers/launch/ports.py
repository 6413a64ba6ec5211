"""Choosing and checking the ports of a server before it is started."""

import contextlib
import socket
from collections.abc import Mapping

import psutil

from servemark.errors import ServerError


def claim(host: str, ports: Mapping[str, int]) -> dict[str, int]:
    """Check that the ports (flag -> number) are free on a host and replace each 0 by a free port.

    Raises ServerError naming the first port that is taken and, where it may be known, the process that holds it.
    """
    claimed: dict[str, int] = {}
    with contextlib.ExitStack() as stack:  # all are held until all are known, so that no port is given out twice
        for flag, port in ports.items():
            listener = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            # connections of an earlier server in TIME_WAIT do not make a port taken
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((host, port))
                listener.listen(1)
            except OSError as error:
                raise ServerError(
                    f"cannot listen on {host}:{port}: {error.strerror}{_holder(port)}",
                    fix=f"choose another port with {flag} PORT (0 picks a free one), or end that process",
                ) from error
            claimed[flag] = listener.getsockname()[1]
    return claimed


def _holder(port: int) -> str:
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            local = connection.laddr
            if local and local.port == port and connection.status == psutil.CONN_LISTEN and connection.pid:
                return f"; held by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return ""
