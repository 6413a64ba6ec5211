"""URLs of servers: hosts, the path of an ingress, and what is refused."""

import pytest

from loadgen.transport.server_url import authority, normal_url, path_of
from servemark.errors import OptionError


@pytest.mark.parametrize(
    ("text", "url", "path"),
    [
        ("http://host:8000/", "http://host:8000", ""),
        ("host", "http://host", ""),
        ("http://host/serving/a", "http://host/serving/a", "/serving/a"),
        ("https://host:8443/serving/a/", "https://host:8443/serving/a", "/serving/a"),
        ("host/a%20b/é", "http://host/a%20b/%C3%A9", "/a%20b/%C3%A9"),
        ("http://[::1]:8000/v2x", "http://[::1]:8000/v2x", "/v2x"),
        ("grpc://host:8001", "grpc://host:8001", ""),
        ("unix:/run/a.sock", "http+unix:/run/a.sock", ""),
    ],
)
def test_a_url_with_the_path_of_an_ingress(text: str, url: str, path: str) -> None:
    assert normal_url(text) == url
    assert path_of(url) == path
    assert "/" not in authority(url)


@pytest.mark.parametrize(
    ("text", "words", "fix"),
    [
        ("http://host:8000?x=1", "has a query", "--url http://host:8000"),
        ("http://host:8000/a?x=1", "has a query", "--url http://host:8000/a"),
        ("http://host:8000#x", "has a query", "--url http://host:8000"),
        ("grpc://host:8001/a", "a gRPC call has its own", "--url grpc://host:8001"),
        ("http://host/a/../b", "lead elsewhere", "--url http://host"),
        ("http://host//a", "lead elsewhere", "--url http://host"),
        ("http://host/a\nb", "lead elsewhere", "--url http://host"),
        ("http://host:8000/v2", "the path of KServe v2 itself", "--url http://host:8000"),
        ("http://host/a/v2/models/m/infer", "the path of KServe v2 itself", "--url http://host/a"),
    ],
)
def test_what_would_be_dropped_is_refused(text: str, words: str, fix: str) -> None:
    with pytest.raises(OptionError, match=words) as error:
        normal_url(text)
    assert error.value.fix == fix


@pytest.mark.parametrize("text", ["http:///a", "http://:8000", "ftp://host/a", "http://host:0/a", "http://host:x/a"])
def test_a_host_is_needed(text: str) -> None:
    with pytest.raises(OptionError, match="is not http://HOST:PORT"):
        normal_url(text)


@pytest.mark.parametrize(
    ("text", "protocol", "url"),
    [
        ("", "", "http://127.0.0.1:8000"),
        ("", "grpc", "grpc://127.0.0.1:8001"),
        ("somewhere:9", "grpc", "grpc://somewhere:9"),
        ("grpc://somewhere:9/", "grpc", "grpc://somewhere:9"),
        ("unix:/run/s", "", "http+unix:/run/s"),
        ("unix:///run/s", "grpc", "grpc+unix:/run/s"),
        ("grpc+unix:/run/s", "", "grpc+unix:/run/s"),
        ("http+unix:/run/s", "http", "http+unix:/run/s"),
    ],
)
def test_a_protocol_is_a_url_s_scheme_where_it_has_none(text: str, protocol: str, url: str) -> None:
    assert normal_url(text, protocol) == url


@pytest.mark.parametrize(
    ("text", "protocol"),
    [
        ("unix:/" + "x" * 200, ""),
        ("grpc+unix:/s", "http"),
        ("unix:/a#b", ""),
        ("http+unix://a", ""),
        ("http://somewhere:9", "grpc"),
    ],
)
def test_what_is_not_a_socket_or_not_of_the_protocol_is_refused(text: str, protocol: str) -> None:
    with pytest.raises(OptionError, match="--url"):
        normal_url(text, protocol)
