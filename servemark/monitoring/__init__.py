"""Prometheus and Grafana beside a run, and MLflow, which keeps results. Knows no command line."""

from typing import Any

import requests

from servemark.errors import ServerError, reason

TIMEOUT_S = 30.0


def session_with(token: str) -> requests.Session:
    """Make a session that sends a token; without one ~/.netrc has user and password."""
    session = requests.Session()
    if token:
        session.headers["Authorization"] = f"Bearer {token}"
        session.trust_env = False  # or ~/.netrc would replace the token
    return session


def send(
    session: requests.Session, method: str, url: str, *, to: str, fix: str, **body: Any
) -> tuple[requests.Response, dict[str, Any]]:
    """Send to a REST API, and return its answer with what that says as JSON: nothing of a stored file, or a proxy.

    No redirect is followed, because it would take nothing. Raises ServerError where nobody answers.
    """
    try:
        answer = session.request(method, url, timeout=TIMEOUT_S, allow_redirects=False, **body)
    except requests.RequestException as error:
        raise ServerError(f"no {to} answers at {url}: {reason(error)}", fix=fix) from error
    try:
        said = answer.json()
    except requests.JSONDecodeError:
        said = {}
    return answer, said if isinstance(said, dict) else {}
