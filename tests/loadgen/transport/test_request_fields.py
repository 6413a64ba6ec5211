"""Header fields of the user's: which are sent, and that each is sent once."""

import pytest

from loadgen.transport.request_fields import fault_of, lines_of, merged, twice


@pytest.mark.parametrize("host", ["a.example.com", "a.example.com:8080", "10.0.0.1", "[::1]:80", "a-b_c.local"])
def test_a_host_may_be_given(host: str) -> None:
    assert fault_of("Host", host) is None


@pytest.mark.parametrize("host", ["http://a", "a/b", "a b", "a,b/", "u@h", "a:port", "a:123456"])
def test_what_is_not_a_host_is_refused(host: str) -> None:
    assert fault_of("Host", host) == "the value of host is not HOST or HOST:PORT"


def test_the_type_of_a_body_is_given_by_whose_body_it_is() -> None:
    assert fault_of("Content-Type", "text/plain") is not None
    assert fault_of("Content-Type", "text/plain", may_give_type=True) is None
    assert fault_of("Content-Length", "5", may_give_type=True) is not None


def test_a_name_is_the_same_in_any_case() -> None:
    assert merged({"A": 1, "B": 2}, {"a": 3}) == {"a": 3, "B": 2}
    assert twice(["X-A", "B", "x-a"]) == "x-a"
    assert twice(["X-A", "B"]) is None
    assert lines_of("h:1", {"x": 1}) == ["Host: h:1", "x: 1"]
    assert lines_of("h:1", {"x": 1, "hOST": "a"}) == ["Host: a", "x: 1"]
