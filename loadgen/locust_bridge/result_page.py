"""Locust's web UI: the tab "servemark" with a run's figures, result and verdict, and the guard of all its pages.

Only the UI's own pages, under its own name, may steer it, by the fields that they show. Locust takes requests of every
web site's pages (CORS), under every name, and sets every option from a form: also where results are written, and which
files are sent to which host.
"""

import json
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Blueprint, Response, jsonify, request
from locust import argument_parser

from servemark.documents.saved_load import title_of
from servemark.figures.value import FigureValue
from servemark.machine.addresses import is_loopback
from servemark.paths import shown
from servemark.results.schema.details import ErrorDetails
from servemark.results.schema.run import PendingResult, Result
from servemark.views.verdict import answer

if TYPE_CHECKING:
    from locust.web import WebUI  # imported, it patches threads and sockets


FILES = Path(__file__).with_name("web_ui")
TAB = "servemark"
LIVE_EVERY_S = 1.0
"""Figures of a run that goes on are computed at most this often, however many browsers ask."""
_SCRIPT = f'<script src="./{TAB}/files/tab.js"></script></body>'

SoFar = tuple[float, dict[str, FigureValue], ErrorDetails]
"""Measured seconds, the figures, and the failed requests by kind."""
Live = Callable[[], SoFar | None]
"""Gives how the run stands, None before the measured interval."""


View = Callable[[], Response]


@dataclass
class Run:
    """State of the last run: idle (there was none), running, finished or failed."""

    state: str = "idle"
    live: Live = lambda: None
    error: str | None = None
    directory: Path | None = None
    result: Result | PendingResult | None = None
    so_far: SoFar | None = None
    so_far_until: float = 0.0

    def to_dict(self) -> dict[str, object]:
        """Return the JSON route's document: the result, with the figures so far while the run goes on."""
        result: Mapping[str, object] | None = self.result
        if self.state == "running" and self.result is not None and (so_far := self._so_far()) is not None:
            measured_s, figures, errors = so_far
            scenario = {**self.result["scenario"], "measured_s": measured_s}
            result = {**self.result, "scenario": scenario, "figures": figures, "details": {"errors": errors}}
        return {
            "state": self.state,
            "title": None if self.result is None else title_of(self.result),
            "answer": None if self.result is None or self.result["verdict"] is None else answer(self.result),
            "error": self.error,
            "directory": None if self.directory is None else shown(self.directory),
            "result": result,
        }

    def _so_far(self) -> SoFar | None:
        now = time.monotonic()
        if now >= self.so_far_until:
            self.so_far, self.so_far_until = self.live(), now + LIVE_EVERY_S
        return self.so_far


class ResultPage:
    """Content of the tab, and its routes: `servemark/` as a page, `servemark/result` as JSON.

    Its owner tells it how a run stands: `begin` with a callable for the figures so far, `written` for each state of the
    result that is kept, `failed` where there is none.
    """

    def __init__(self) -> None:
        self.run = Run()

    def begin(self, live: Live) -> None:
        """Forget the last run: another one starts."""
        self.run = Run("running", live)

    def written(self, directory: Path, result: Result | PendingResult) -> None:
        """Take a result as it was written: without figures before the run, whole after it."""
        self.run.directory, self.run.result = directory, result
        if result["figures"] is not None:
            self.run.state = "finished"

    def failed(self, error: str) -> None:
        """Reason why there is no result."""
        self.run.state, self.run.error = "failed", error

    def end(self) -> None:
        """The run is over, however it ended."""
        if self.run.state == "running":
            self.failed("the run ended before anything was measured: see the log")

    def publish(self, web_ui: "WebUI", base_path: str) -> None:
        """Add the routes, the tab and the download to Locust's web UI before it starts."""
        assert web_ui.app is not None
        protected: Callable[[View], View] = web_ui.auth_required_if_enabled
        routes = Blueprint(
            TAB, __name__, url_prefix=f"{base_path}/{TAB}", static_folder=FILES, static_url_path="/files"
        )

        @routes.route("/")
        @protected
        def page() -> Response:
            return routes.send_static_file("page.html")

        @routes.route("/result")
        @protected
        def result() -> Response:
            return Response(json.dumps(self.run.to_dict(), allow_nan=False), mimetype="application/json")

        @web_ui.app.after_request
        def with_tab(response: Response) -> Response:
            # Locust's own tabs show one table; a script puts our page into ours.
            if request.endpoint == "locust.index" and response.status_code == 200:
                response.set_data(response.get_data(as_text=True).replace("</body>", _SCRIPT))
            return response

        web_ui.app.register_blueprint(routes)
        web_ui.template_args["extended_tabs"] = [{"title": TAB, "key": TAB}]
        web_ui.template_args["extended_csv_files"] = [
            {"href": f"./{TAB}/result", "title": "Download servemark's result (JSON)"}
        ]


LOCUST_FIELDS = frozenset({"host", "profile", "run_time", "shape_class", "spawn_rate", "user_classes", "user_count"})
CREDENTIALS = {"headers": "--headers", "client_cert": "--client-cert"}


def guard(web_ui: "WebUI", options: Namespace) -> None:
    """Refuse what no page of the web UI itself sends; call it before the web UI starts."""
    assert web_ui.app is not None
    published = LOCUST_FIELDS | argument_parser.ui_extra_args_dict().keys()
    host = options.host

    @web_ui.app.before_request
    def refuse() -> tuple[Response, int] | Response | None:
        if why := _foreign(options.web_host):
            return jsonify(error=why), 403
        if request.data:  # Locust's /user takes JSON and sets any attribute of a user class by it, for all later runs
            return jsonify(error="the web UI takes forms alone: the command line says what a user does"), 403
        if why := _wrong_field(published, host, options):
            return jsonify(success=False, message=why, host=host)  # as Locust's page expects it
        return None

    @web_ui.app.after_request
    def unframed(response: Response) -> Response:
        # A page of another site around ours could have the user click what they do not see.
        response.headers["X-Frame-Options"] = "SAMEORIGIN"
        return response


def _foreign(web_host: str) -> str | None:
    """Return the reason why a request does not come from a page of ours, None if it may."""
    if is_loopback(web_host) and not is_loopback(urlsplit(f"//{request.host}").hostname or ""):
        # A name that somebody else makes lead here turns their page into one of ours (DNS rebinding).
        return f"this web UI listens on {web_host}, and has no other name"
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        return "a page of another site may not use this web UI"
    opened = (request.method, *map(request.headers.get, ("Sec-Fetch-Mode", "Sec-Fetch-Dest")))
    followed_a_link = opened == ("GET", "navigate", "document")
    if request.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"} and not followed_a_link:
        return "a page of another site may not use this web UI"
    return None


def _wrong_field(published: frozenset[str], host: str, options: Namespace) -> str | None:
    """Return the reason why a form is refused, None if it is right."""
    if hidden := sorted(request.form.keys() - published):
        return f"the web UI has no field {hidden[0]!r}: give it on the command line"
    given = [flag for name, flag in CREDENTIALS.items() if getattr(options, name)]
    if given and request.form.get("host", host) != host:
        return f"{given[0]} is for {host} alone: start Locust anew for another host"
    return None
