"""Prometheus and Grafana beside a run, and MLflow, which keeps results. Knows no command line."""

import requests


def session_with(token: str) -> requests.Session:
    """Make a session that sends a token; without one ~/.netrc has user and password."""
    session = requests.Session()
    if token:
        session.headers["Authorization"] = f"Bearer {token}"
        session.trust_env = False  # or ~/.netrc would replace the token
    return session
