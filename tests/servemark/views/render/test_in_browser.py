"""Pages in a real browser: nothing is fetched, nothing fails, everything is drawn, also on a phone and on paper."""

import base64
import copy
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from servemark.results.saved import Saved
from servemark.views.render.html import page
from tests.support import browser

pytestmark = browser.needs_chromium
AXE = os.environ.get("AXE_CORE", "")
"""The file axe.min.js: `npm pack axe-core` fetches it."""
_CLIPPED = """[...document.querySelectorAll('svg text')].filter(text => {
  const own = text.getBoundingClientRect(), svg = text.closest('svg').getBoundingClientRect();
  return own.left < svg.left - 2 || own.right > svg.right + 2;
}).map(text => text.textContent)"""
"""Words of plots that their figure cuts off."""
_SERIOUS = """axe.run(document, {resultTypes: ['violations']}).then(found => found.violations
  .filter(each => ['serious', 'critical'].includes(each.impact))
  .map(each => each.id + ': ' + each.nodes.map(node => node.html.slice(0, 80)).join(' | ')))"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    with browser.page(tmp_path_factory.mktemp("browser")) as opened:
        for domain in ("Log", "Runtime", "Network"):
            opened.call(f"{domain}.enable")
        yield opened


@pytest.fixture(scope="module")
def file(saved: dict[str, Saved], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All kinds on one page, its summaries open."""
    path = tmp_path_factory.mktemp("pages") / "all.html"
    path.write_text(page("all", [*saved.values()]))
    return path


@pytest.fixture(scope="module")
def short(saved: dict[str, Saved], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two kinds on one page, where what is looked at is the same for each."""
    path = tmp_path_factory.mktemp("pages") / "short.html"
    path.write_text(page("short", [saved["open"], saved["comparison"]]))
    return path


def shown(tab: browser.Page, file: Path, *, width: int, dark: bool = False) -> None:
    tab.events.clear()
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    tab.call("Emulation.setDeviceMetricsOverride", **metrics)
    tab.open(file.as_uri(), dark=dark)


@pytest.mark.parametrize("width", [360, 1240])
def test_every_figure_is_drawn_nothing_is_fetched_and_the_page_never_scrolls_sideways(
    tab: browser.Page, file: Path, width: int
) -> None:
    shown(tab, file, width=width)
    tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    fetched = [e["params"]["request"]["url"] for e in tab.events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in fetched if not url.startswith("data:")] == [file.as_uri()]
    assert not [e for e in tab.events if e["method"] in {"Log.entryAdded", "Runtime.exceptionThrown"}]
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    sizes = tab.evaluate(
        "[...document.querySelectorAll('figure svg')].map(svg => { const box = svg.getBoundingClientRect();"
        " return [box.width, box.height, svg.querySelectorAll('path, rect, circle').length] })"
    )
    assert len(sizes) > 20
    assert all(wide > 300 and high > 40 and marks > 2 for wide, high, marks in sizes)
    assert tab.evaluate(_CLIPPED) == []


def test_a_flag_is_never_broken(tab: browser.Page, saved: dict[str, Saved], tmp_path: Path) -> None:
    document = copy.deepcopy(saved["history"].document)
    document["series"][0]["reason"] = " ".join(["once", *["more --request-rate"] * 30, "<i>--x</i>"])
    (tmp_path / "flags.html").write_text(page("flags", [replace(saved["history"], document=document)]))
    shown(tab, tmp_path / "flags.html", width=360)
    pieces = tab.evaluate("[...document.querySelectorAll('.flag')].map(flag => flag.getClientRects().length)")
    assert pieces.count(1) == len(pieces) >= 31
    assert tab.evaluate("document.querySelectorAll('i:not(.key)').length") == 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360


def test_light_and_dark_by_the_system_and_by_the_button(tab: browser.Page, short: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    shown(tab, short, width=1240)
    light = tab.evaluate(ground)
    tab.evaluate("document.getElementById('theme').click()")
    dark = tab.evaluate(ground)
    assert light != dark
    assert tab.evaluate("document.getElementById('theme').getAttribute('aria-pressed')") == "true"
    shown(tab, short, width=1240, dark=True)
    assert tab.evaluate(ground) == dark
    tab.evaluate("document.getElementById('theme').click()")
    assert tab.evaluate(ground) == light


def test_it_prints_with_its_numbers(tab: browser.Page, short: Path) -> None:
    shown(tab, short, width=1240, dark=True)
    document = base64.b64decode(tab.call("Page.printToPDF", printBackground=True)["data"])
    assert document.startswith(b"%PDF")
    assert document.count(b"/Type /Page\n") + document.count(b"/Type /Page ") > 5


@pytest.mark.peer
@pytest.mark.skipif(not Path(AXE).is_file(), reason="AXE_CORE names no axe.min.js (npm pack axe-core)")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1240])
def test_axe_finds_nothing_serious(tab: browser.Page, file: Path, width: int, dark: bool) -> None:
    shown(tab, file, width=width, dark=dark)
    tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    tab.evaluate(Path(AXE).read_text() + ";0")
    assert tab.evaluate(_SERIOUS) == []
