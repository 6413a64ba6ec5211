"""Engine that really runs a model: read from the server's metrics, never guessed."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from loadgen.sut.target import Placement
from loadgen.targets.engine_info import read_placement
from servemark.errors import OptionError
from tests.support.load_config import config

METRICS = """# TYPE nv_inference_request_success counter
nv_inference_request_success{model="m",version="1"} 3
servemark_engine_info{device="cuda:1",engine="pytorch",model="m",provider="torch.compile (\\"x\\")"} 1
servemark_engine_info{device="cuda:0",engine="pytorch",model="m",provider="torch.compile (\\"x\\")"} 1
servemark_engine_info{device="cpu",engine="onnxruntime",model="other",provider="CPUExecutionProvider"} 1
servemark_engine_info{engine="onnxruntime",model="partial"} 1
"""
CONFIGURED = Placement("pytorch", "cuda:0", None)


@pytest.fixture(scope="module")
def metrics_url() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(METRICS.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    thread.join(10)
    server.server_close()


def test_the_instances_of_a_model_say_where_they_run(metrics_url: str) -> None:
    found = read_placement(CONFIGURED, metrics_url, "m")
    assert found == Placement("pytorch", "cuda:0,cuda:1", 'torch.compile ("x")')


def test_no_proxy_is_asked(metrics_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert read_placement(CONFIGURED, metrics_url, "m").device == "cuda:0,cuda:1"


def test_without_its_line_the_configuration_is_all_there_is(metrics_url: str) -> None:
    assert read_placement(CONFIGURED, metrics_url, "another") == CONFIGURED
    assert read_placement(CONFIGURED, metrics_url, "partial") == CONFIGURED
    assert read_placement(CONFIGURED, None, "m") == CONFIGURED
    assert read_placement(CONFIGURED, "http://127.0.0.1:9/metrics", "m") == CONFIGURED


@pytest.mark.parametrize(
    ("host", "url", "metrics"),
    [
        ("http://h:8000", "http://h:8000", "http://h:8002/metrics"),
        ("grpc://h:8001", "grpc://h:8001", "http://h:8002/metrics"),
        ("http://h:9000", "http://h:9000", None),
        ("http://h:9000#metrics=9002", "http://h:9000", "http://h:9002/metrics"),
        ("http://h:9000#metrics=other:9002", "http://h:9000", "http://other:9002/metrics"),
    ],
)
def test_an_address_names_the_metrics_too(host: str, url: str, metrics: str | None) -> None:
    found = config("ranking_tiny", "--url", host)
    assert (found.url, found.metrics_url) == (url, metrics)
    again = config("ranking_tiny", "--url", found.address)
    assert (again.url, again.metrics_url) == (url, metrics)


def test_a_metrics_port_is_a_port() -> None:
    with pytest.raises(OptionError, match="is not http:"):
        config("ranking_tiny", "--url", "http://h:9000#metrics=here")
