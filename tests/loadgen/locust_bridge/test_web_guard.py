"""Other sites' pages may not use the web UI, and nobody sets by it what it does not show."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import requests

from servemark.workload import get
from tests.support import browser
from tests.support.locust_run import server_of
from tests.support.web import FORM, Web, web_ui

EVIL = "evil.example"
FOREIGN = [
    ("POST", {"Origin": f"http://{EVIL}"}),
    ("POST", {"Origin": "null"}),
    ("POST", {"Origin": "http://127.0.0.1:1"}),
    ("POST", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}),
    ("POST", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}),
    ("GET", {"Origin": f"http://{EVIL}"}),
    ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}),
    ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}),
    ("GET", {"Host": EVIL}),
    ("GET", {"Host": "127.0.0.1.evil.example"}),
    ("OPTIONS", {"Origin": f"http://{EVIL}", "Access-Control-Request-Method": "POST"}),
]
HIDDEN = ["out", "result_dir", "headers", "model_repository", "start_file", "csv_prefix", "html_file", "no_such"]


def swarm(web: Web, **changes: str) -> dict[str, Any]:
    form = FORM | {"host": web.server.url} | changes
    return dict(requests.post(f"{web.url}/swarm", data=form, timeout=10).json())


def test_requests_of_others_are_refused(tmp_path: Path) -> None:
    with web_ui(tmp_path) as web:
        for method, headers in FOREIGN:
            for path in ("/servemark/result", "/swarm", "/", "/logs", "/no_such"):
                answer = requests.request(method, web.url + path, headers=headers, timeout=10)
                assert answer.status_code == 403, (method, path, headers)
                assert answer.json().keys() == {"error"}
        port = web.url.rpartition(":")[2]
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        own: list[dict[str, str]] = [
            {"Origin": web.url},
            {"Host": f"localhost:{port}"},
            {"Host": f"[::1]:{port}"},
            link,
        ]
        for headers in own:
            answer = requests.get(f"{web.url}/servemark/result", headers=headers, timeout=10)
            assert (answer.status_code, answer.json()["state"]) == (200, "idle"), headers
            assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"

        for user in ({"user_class_name": "Ranking", "own": {"a": 1}}, {"user_class_name": "Ranking", "host": EVIL}):
            for kind in ("application/json", "text/plain", ""):
                body, headers = json.dumps(user), {"Content-Type": kind} if kind else {}
                answer = requests.post(f"{web.url}/user", data=body, headers=headers, timeout=10)
                assert (answer.status_code, answer.json().keys()) == (403, {"error"}), kind

        for name in HIDDEN:
            refused = swarm(web, **{name: str(tmp_path / "elsewhere")})
            assert (refused["success"], repr(name) in refused["message"]) == (False, True)
        assert web.server.requests() == []
        # Without credentials another host may be asked.
        with server_of(get("ranking_tiny")) as other:
            assert swarm(web, host=other.url)["success"]
            web.finished(1)
            assert other.requests()
    assert not (tmp_path / "elsewhere").exists()


def test_credentials_go_to_one_host(tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("Authorization: Bearer secret-token\n")
    with web_ui(tmp_path, "--headers", str(tmp_path / "headers")) as web, server_of(get("ranking_tiny")) as other:
        refused = swarm(web, host=other.url)
        assert refused["message"] == f"--headers is for {web.server.url} alone: start Locust anew for another host"
        web.swarm()
        web.finished(1)
        assert other.requests() == []


@pytest.fixture
def site() -> Iterator[int]:
    """The port of another site, with an empty page."""

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


SEND = """
(async () => {{
  const form = {form};
  const blind = await fetch("{url}/swarm", {{method: "POST", mode: "no-cors", body: new URLSearchParams(form)}});
  const read = (path) => fetch("{url}" + path).then((answer) => answer.text(), () => "");
  return [blind.type, await read("/servemark/result"), await read("/logs")];
}})()
"""


@browser.needs_chromium
def test_a_page_of_another_site_in_a_browser(site: int, tmp_path: Path) -> None:
    mapped = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
    short = ["--model", "ranking_tiny", "--duration", "1", "--warmup", "0.1"]
    with web_ui(tmp_path, *short) as web, browser.page(tmp_path, mapped) as page:
        form = json.dumps(FORM | {"host": web.server.url, "arrival_trace": "/proc/self/environ"})
        for origin in (f"http://{EVIL}:{site}", f"http://localhost:{site}", f"http://127.0.0.1:{site}"):
            page.open(f"{origin}/")
            blind, *read = page.evaluate(SEND.format(form=form, url=web.url))
            assert blind == "opaque"  # it was sent
            assert not [text for text in read if "state" in text or "master" in text], origin
        # The site's own name may come to lead to the web UI.
        rebound = web.url.replace("127.0.0.1", EVIL)
        page.open(f"{rebound}/servemark/result")
        assert "has no other name" in page.evaluate("document.body.innerText")
        assert requests.get(f"{web.url}/servemark/result", timeout=10).json()["state"] == "idle"
        assert web.server.requests() == []

        # The page's own form still starts a run, with every field that it shows.
        page.open(f"{web.url}/")
        page.until("document.querySelector('button[type=submit]') !== null")
        page.evaluate("document.querySelector('button[type=submit]').click()")
        [result] = web.finished(1)
        assert result["request"]["workload"] == "ranking_tiny"
