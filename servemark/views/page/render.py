"""The page as HTML: one file with its style and its few lines of script, nothing else to fetch."""

import functools
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from servemark import __version__
from servemark.output import printable
from servemark.views.page.blocks import Article


def render_page(title: str, articles: Sequence[Article]) -> str:
    """The whole page. Every word is escaped, and what would turn or hide text is shown as its code."""
    template = _environment().get_template("page.html.j2")
    return template.render(title=title, articles=articles, version=__version__)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("servemark.views.page", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # What stands between {{ and }}: SVG is markup already, all else is words.
        finalize=lambda value: value if hasattr(value, "__html__") else printable(str(value)),
    )
    environment.globals["raw"] = lambda name: environment.get_template(name).render()
    return environment
