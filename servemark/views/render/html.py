"""Documents as one HTML page: one file with its style and its few lines of script, nothing else to fetch."""

import functools
import re
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from servemark import __version__
from servemark.errors import ResultError, parsing
from servemark.output import printable
from servemark.results.saved import Saved
from servemark.views.kinds import kind_of

_CODE = re.compile(r"`([^`]+)`")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def page(title: str, documents: Sequence[Saved]) -> str:
    """The page of some documents, one below the other. Raises ResultError.

    Every word is escaped, and what would turn or hide text is shown as its code.
    """
    template = _environment().get_template("page.html.j2")
    with parsing(", ".join(saved.name for saved in documents), ResultError, fix="name whole result directories"):
        articles = [kind_of(saved).article(saved) for saved in documents]
        return template.render(title=title, articles=articles, version=__version__)


def _said(value: object) -> Markup:
    """Escape words, show `code` as code, and keep a flag in one piece: a browser would break it after its hyphens."""
    escaped = _CODE.sub(r"<code>\1</code>", str(escape(printable(str(value)))))
    return Markup(_FLAG.sub(r'<span class="flag">\g<0></span>', escaped))  # noqa: S704 - escaped above


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("servemark.views.render", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # What stands between {{ and }}: SVG is markup already, all else is words.
        finalize=lambda value: value if hasattr(value, "__html__") else printable(str(value)),
    )
    environment.filters["said"] = _said
    return environment
