"""A picture of a page as headless Chromium shows it, for the docs: 128 colours, so that it stays small.

    python -m tools.page_picture results/latest/report.html docs/images/report.png [--width 360 --dark] [--height 1400]

Without a height the picture is of the whole page. `--top TEXT` begins at the heading with this text. The width is in
CSS pixels; a narrow page is drawn with two pixels for each, as a phone does.
"""

import argparse
import base64
import io
import json
import tempfile
from pathlib import Path

from PIL import Image

from tests.support import browser

COLOURS = 128
PHONE = 500
"""Pages narrower than this are a phone's."""
_TOP = """(() => {{
  const found = [...document.querySelectorAll('h1, h2, h3')].find(each => each.textContent.includes({text}));
  return found ? found.getBoundingClientRect().top + scrollY : null;
}})()"""


def picture(page: Path, *, width: int, height: int | None, dark: bool, top: str = "") -> Image.Image:
    """Draw a page with Chromium. Raises LookupError if no heading has the text."""
    with tempfile.TemporaryDirectory() as folder, browser.page(Path(folder), width=max(width, PHONE)) as tab:
        scale = 2 if width < PHONE else 1
        metrics = {"width": width, "height": 900, "deviceScaleFactor": scale, "mobile": width < PHONE}
        tab.call("Emulation.setDeviceMetricsOverride", **metrics)
        tab.open(page.resolve().as_uri(), dark=dark)
        above = tab.evaluate(_TOP.format(text=json.dumps(top))) if top else 0
        if above is None:
            raise LookupError(f"no heading of {page} has {top!r}")
        whole = tab.evaluate("document.documentElement.scrollHeight") - above
        clip = {"x": 0, "y": above, "width": width, "height": min(height or whole, whole), "scale": 1}
        shot = tab.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
    return Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")


def main(arguments: list[str] | None = None) -> None:
    """Write the picture and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--width", type=int, default=1240)
    parser.add_argument("--height", type=int)
    parser.add_argument("--top", default="", metavar="TEXT")
    parser.add_argument("--dark", action="store_true")
    given = parser.parse_args(arguments)
    found = picture(given.page, width=given.width, height=given.height, dark=given.dark, top=given.top)
    found.quantize(COLOURS, dither=Image.Dither.NONE).save(given.out, optimize=True)
    print(f"{given.out}: {found.width} x {found.height}, {given.out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
