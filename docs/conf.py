"""Configure Sphinx for the documentation site, which `make docs` builds, strict about links.

The pages stay plain Markdown that reads well in a repository. The source folder is the checkout, because pages link to
CONTRIBUTING.md and SECURITY.md. The navigation is added here, from the folders, and so are the pages that are made.
"""

import shutil
from pathlib import Path
from typing import Any

from servemark import __version__
from servemark.paths import CHECKOUT
from tools import site_pages

HERE = Path(__file__).parent
SITES = CHECKOUT / "build" / "docs"
SECTIONS = {"Guides": "guides", "Reference": "reference", "Explanation": "explanation", "Results": "results"}

project = "servemark"
copyright = "the servemark authors, Apache-2.0"  # noqa: A001 - Sphinx's name for it
release = version = __version__
extensions = ["myst_parser", "sphinx_copybutton"]
myst_enable_extensions = ["attrs_block"]
myst_heading_anchors = 4
include_patterns = ["*.md", "docs/**"]
exclude_patterns = [f"{path.name}/**" for path in CHECKOUT.iterdir() if path.is_dir() and path.name != "docs"]
root_doc = "README"
templates_path = ["_templates"]
suppress_warnings = ["myst.header"]  # tables of comparisons are pasted below a heading of the second level
html_theme = "furo"
html_title = f"servemark {version}"
html_copy_source = False
html_show_sphinx = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "versions.html",
        "sidebar/scroll-end.html",
    ]
}
copybutton_prompt_text = "$ "


def versions() -> list[str]:
    """List the versions that are built beside this one, and this one."""
    built = {path.name for path in SITES.glob("*") if (path / "index.html").exists()}
    return sorted({*built, version}, reverse=True)


html_context = {"versions": versions(), "this_version": version}


def _with_navigation(_app: Any, docname: str, source: list[str]) -> None:
    """Append the tables of contents to the first page."""
    if docname != root_doc:
        return
    source[0] += "\n\n```{toctree}\n:hidden:\n\ndocs/index\nCONTRIBUTING\nCHANGELOG\nSECURITY\n```\n"
    for caption, folder in SECTIONS.items():
        pages = sorted((HERE / folder).rglob("*.md"), key=_place)
        entries = "\n".join(str(page.relative_to(CHECKOUT).with_suffix("")) for page in pages)
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def _place(page: Path) -> tuple[int, Path]:
    """Return where the index names a page; those that it does not name come last."""
    index = (HERE / "index.md").read_text()
    place = index.find(f"({page.relative_to(HERE)})")
    return (len(index) if place < 0 else place), page


def _first_page(app: Any, failure: Exception | None) -> None:
    """Make the first page the one that a browser opens in a folder."""
    if failure is None and app.builder.format == "html":
        shutil.copyfile(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Any) -> None:
    """Write the pages that are made, and connect the navigation and the first page."""
    site_pages.write()
    app.connect("source-read", _with_navigation)
    app.connect("build-finished", _first_page)
