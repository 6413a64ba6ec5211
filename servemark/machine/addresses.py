"""What an address to listen on means."""

import contextlib
from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there; a name is none but `localhost`."""
    with contextlib.suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"
