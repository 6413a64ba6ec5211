"""The tab "servemark" of Locust's web UI: a run's precise figures while it goes on, its result and verdict after it."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flask import Blueprint, Response, request

from servemark.documents.saved_load import title_of
from servemark.figures.value import FigureValue
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
