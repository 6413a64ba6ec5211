"""The dashboards in a Grafana that runs, through its HTTP API: a data source, a folder, and each dashboard."""

import json
from collections.abc import Mapping
from typing import Any

import requests

from dashboards import FOLDER
from servemark.errors import ServerError
from servemark.monitoring.files import dashboard_files
from servemark.telemetry.metrics.push import reason

DATA_SOURCE = {"uid": "servemark-prometheus", "name": "servemark: Prometheus", "type": "prometheus", "access": "proxy"}
"""As of provisioning/datasources, with names of its own: the user's Grafana may have a Prometheus already."""
INTERVAL = {"timeInterval": "1s"}
FOLDER_OF_GRAFANA = {"uid": "servemark", "title": "servemark"}
TIMEOUT_S = 10.0
_THERE = 409
_FIX = "give a token of a service account that may edit data sources and dashboards (--token-file)"


def load_dashboards(grafana: str, prometheus: str, token: str = "") -> list[str]:
    """Load every dashboard, in place of an earlier load, and return their pages.

    Without a token ~/.netrc has user and password. Raises ServerError.
    Source: Grafana's documentation, "HTTP API": data source, folder, dashboard.
    """
    session = requests.Session()
    if token:
        session.headers["Authorization"] = f"Bearer {token}"
        session.trust_env = False  # or ~/.netrc would replace the token
    base = grafana.rstrip("/")
    source = {**DATA_SOURCE, "url": prometheus, "jsonData": INTERVAL}
    if _call(session, "POST", f"{base}/api/datasources", source, allowed=_THERE) is None:
        _call(session, "PUT", f"{base}/api/datasources/uid/{DATA_SOURCE['uid']}", source)
    _call(session, "POST", f"{base}/api/folders", FOLDER_OF_GRAFANA, allowed=_THERE)
    pages = []
    for file in dashboard_files(FOLDER):
        dashboard = json.loads(file.read_text())
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "datasource":
                variable["current"] = {"text": DATA_SOURCE["name"], "value": DATA_SOURCE["uid"]}
        order = {"dashboard": dashboard, "folderUid": FOLDER_OF_GRAFANA["uid"], "overwrite": True}
        done = _call(session, "POST", f"{base}/api/dashboards/db", order)
        pages.append(f"{base}{(done or {}).get('url', '')}")
    return pages


def _call(
    session: requests.Session, method: str, url: str, document: Mapping[str, object], *, allowed: int | None = None
) -> dict[str, Any] | None:
    """Send a document; the answer, None where it has the `allowed` status. Raises ServerError."""
    try:
        answer = session.request(method, url, json=document, timeout=TIMEOUT_S, allow_redirects=False)
        if answer.status_code == allowed:
            return None
        said = answer.json()
    except (requests.RequestException, ValueError) as error:
        raise ServerError(
            f"no Grafana answers at {url}: {reason(error)}", fix="start Grafana there, or correct the URL"
        ) from error
    if not answer.ok or not isinstance(said, dict):
        message = said.get("message", "") if isinstance(said, dict) else ""
        raise ServerError(f"Grafana refused {method} {url}: {answer.status_code} {message}".rstrip(), fix=_FIX)
    return said
