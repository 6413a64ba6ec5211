"""Guard of Locust's web UI: only its own pages, under its own name, may steer it, by the fields that they show.

Locust takes requests of every web site's pages (CORS), under every name, and sets every option from a form: also where
results are written, and which files are sent to which host.
"""

from argparse import Namespace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Response, jsonify, request
from locust import argument_parser

from servemark.machine.addresses import is_loopback

if TYPE_CHECKING:
    from locust.web import WebUI  # imported, it patches threads and sockets

LOCUST_FIELDS = frozenset({"host", "profile", "run_time", "shape_class", "spawn_rate", "user_classes", "user_count"})
CREDENTIALS = {"headers": "--headers", "client_cert": "--client-cert"}


def guard(web_ui: "WebUI", options: Namespace) -> None:
    """Refuse what no page of the web UI itself sends; call it before the web UI starts."""
    assert web_ui.app is not None
    published = LOCUST_FIELDS | argument_parser.ui_extra_args_dict().keys()
    host = options.host

    @web_ui.app.before_request
    def refuse() -> tuple[Response, int] | Response | None:
        if why := _foreign(options.web_host) or _no_form():
            return jsonify(error=why), 403
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


def _no_form() -> str | None:
    """Say why a request is refused whose body is not a form; None where it is one, or where it has none.

    Locust's /user takes JSON and sets any attribute of a user class by it, for all later runs.
    """
    return "the web UI takes forms alone: the command line says what a user does" if request.data else None


def _wrong_field(published: frozenset[str], host: str, options: Namespace) -> str | None:
    """Return the reason why a form is refused, None if it is right."""
    if hidden := sorted(request.form.keys() - published):
        return f"the web UI has no field {hidden[0]!r}: give it on the command line"
    given = [flag for name, flag in CREDENTIALS.items() if getattr(options, name)]
    if given and request.form.get("host", host) != host:
        return f"{given[0]} is for {host} alone: start Locust anew for another host"
    return None
