"""Dashboards loaded into a Grafana: a double of its HTTP API keeps what it is sent."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dashboards.build import DASHBOARDS
from servemark.errors import ServerError
from servemark.monitoring.stack import DATA_SOURCE, load_dashboards
from tests.support.command_line import BAD_INPUT, Servemark

TOKEN = "glsa_secret"  # noqa: S105


class Grafana(ThreadingHTTPServer):
    """Answers as Grafana 13 documents: 409 for what is there, 401 without the token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.sources: dict[str, Any] = {}
        self.folders: dict[str, Any] = {}
        self.dashboards: dict[str, Any] = {}
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, method: str, path: str, sent: Any) -> tuple[int, dict[str, Any]]:
        if (method, path) == ("POST", "/api/datasources"):
            known = sent["uid"] in self.sources
            self.sources.setdefault(sent["uid"], sent)
            return (409, {"message": "exists"}) if known else (200, {"id": 1})
        if method == "PUT" and path.startswith("/api/datasources/uid/"):
            self.sources[path.rpartition("/")[2]] = sent
            return 200, {"id": 1}
        if (method, path) == ("POST", "/api/folders"):
            known = sent["uid"] in self.folders
            self.folders[sent["uid"]] = sent
            return (409, {"message": "exists"}) if known else (200, {"id": 1})
        if (method, path) == ("POST", "/api/dashboards/db") and sent["folderUid"] in self.folders:
            uid = sent["dashboard"]["uid"]
            if uid in self.dashboards and not sent["overwrite"]:
                return 412, {"message": "exists"}
            self.dashboards[uid] = sent["dashboard"]
            return 200, {"url": f"/d/{uid}/name"}
        return 404, {"message": "not found"}


class Answering(BaseHTTPRequestHandler):
    server: Grafana

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        right = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        answer = self.server.answer(self.command, self.path, sent) if right else (401, {"message": "Unauthorized"})
        content = json.dumps(answer[1]).encode()
        self.send_response(answer[0])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_PUT = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def grafana() -> Iterator[Grafana]:
    with Grafana() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_every_dashboard_asks_the_prometheus_that_was_named(
    grafana: Grafana, servemark: Servemark, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    for url in ("http://127.0.0.1:9090", "http://127.0.0.1:9091"):  # the second load replaces the first
        done = servemark("dashboards", "load", grafana.url, "--prometheus", url, "--token-file", str(token))
        assert done.code == 0, done.err
    assert done.out.split() == [f"{grafana.url}/d/servemark-{name}/name" for name in sorted(DASHBOARDS)]
    [source] = grafana.sources.values()
    assert source["url"] == "http://127.0.0.1:9091"
    assert set(grafana.dashboards) == {f"servemark-{name}" for name in DASHBOARDS}
    for dashboard in grafana.dashboards.values():
        chosen = [each["current"]["value"] for each in dashboard["templating"]["list"] if each["type"] == "datasource"]
        assert chosen == [DATA_SOURCE["uid"]]


def test_a_refusal_has_grafanas_words_and_no_token(grafana: Grafana) -> None:
    with pytest.raises(ServerError, match="401 Unauthorized") as error:
        load_dashboards(grafana.url, "http://127.0.0.1:9090", "wrong")
    assert "wrong" not in error.value.what
    assert not grafana.dashboards


def test_a_place_without_grafana_and_a_file_without_token_say_so(
    grafana: Grafana, servemark: Servemark, tmp_path: Path
) -> None:
    grafana.shutdown()
    grafana.server_close()
    with pytest.raises(ServerError, match=r"no Grafana answers at [^ ]*: Connection refused\n"):
        load_dashboards(grafana.url, "http://127.0.0.1:9090", TOKEN)
    done = servemark("dashboards", "load", grafana.url, "--token-file", str(tmp_path / "absent"))
    assert (done.code, "--token-file" in done.err) == (BAD_INPUT, True)
