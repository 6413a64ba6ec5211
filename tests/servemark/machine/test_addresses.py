"""Which addresses this machine alone reaches."""

import pytest

from servemark.machine.addresses import is_loopback


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("", False),
        ("*", False),
        ("127.0.0.1.example", False),
    ],
)
def test_loopback(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone
