"""Our own drawing of the Grafana dashboards: `python -m tools.dashboard_pictures http://127.0.0.1:9090 --minutes 5`.

Asks Prometheus each panel's queries, as Grafana would, and draws what comes as a plain page. Chromium makes a picture
of it. Grafana itself cannot be had here. Panels without data say so.
"""

import argparse
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import requests

from dashboards import FOLDER
from servemark.paths import CHECKOUT

IMAGES = CHECKOUT / "docs" / "images"
VARIABLES = dict.fromkeys(("workload", "engine", "device", "run", "model"), ".*")
COLOURS = ("#3274d9", "#37872d", "#e0752d", "#8f3bb8", "#c4162a", "#0c8a8a", "#b58900", "#5b5b5b")
COLUMN_PX, ROW_PX, POINTS, GAP_STEPS = 50, 30, 120, 4
PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ"))
UNITS = {"s": "s", "reqps": "/s", "watt": "W", "joule": "J", "bytes": "B", "hertz": "Hz", "celsius": "°C"}


@dataclass(frozen=True)
class Series:
    """One line of a panel: points (seconds, value)."""

    name: str
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus and the time that is shown, in seconds of the epoch."""

    url: str
    start: float
    end: float
    variables: Mapping[str, str]

    def ask(self, panel: Mapping[str, Any]) -> list[Series]:
        """Answer the queries of a panel."""
        return [line for target in panel.get("targets", []) for line in self._answer(target)]

    def _answer(self, target: Mapping[str, Any]) -> Iterator[Series]:
        span_s = max(self.end - self.start, 1)
        expression = target["expr"].replace("$__range", f"{span_s:.0f}s").replace("$__rate_interval", "8s")
        for name, value in self.variables.items():
            expression = re.sub(rf"\$\{{?{name}(:\w+)?\}}?", value, expression)
        if target.get("instant"):
            call, times = "query", {"time": f"{self.end:.3f}"}
        else:
            call = "query_range"
            times = {"start": f"{self.start:.3f}", "end": f"{self.end:.3f}", "step": f"{span_s / POINTS:.3f}"}
        answer = requests.get(f"{self.url}/api/v1/{call}", params={"query": expression, **times}, timeout=30)
        answer.raise_for_status()
        for found in answer.json()["data"]["result"]:
            points = [(float(at), float(value)) for at, value in found.get("values") or [found["value"]]]
            known = [point for point in points if point[1] == point[1] and abs(point[1]) != float("inf")]
            if known:
                yield Series(_legend(target.get("legendFormat", ""), found["metric"]), known)


def _legend(text: str, labels: Mapping[str, str]) -> str:
    filled = re.sub(r"\{\{(\w+)\}\}", lambda label: labels.get(label[1], ""), text)
    return filled or ", ".join(labels.values())


def number(value: float, unit: str | None) -> str:
    """Write a value with three digits and its unit."""
    if unit == "percentunit":
        return f"{value:.3g}".rstrip() if value > 1 else f"{value:.0%}"
    if unit not in UNITS and abs(value) < 1e3:
        return f"{value:.3g}"
    scale, prefix = next(((s, p) for s, p in PREFIXES if abs(value) >= s), (1, ""))
    return f"{value / scale:.3g} {prefix}{UNITS.get(unit or '', '')}".strip()


def lines(found: list[Series], width: int, height: int, span: tuple[float, float], unit: str | None) -> str:
    """Draw series over time from 0, as SVG."""
    top = max((value for series in found for _, value in series.points), default=1.0) or 1.0
    parts = [
        f'<svg width="{width}" height="{height}"><text x="2" y="10">{number(top, unit)}</text>'
        f'<line x1="0" x2="{width}" y1="{height - 1}" y2="{height - 1}" stroke="#ccc"/>'
    ]
    step = (span[1] - span[0]) / POINTS
    for index, series in enumerate(found):
        path, last = "", None
        for at, value in series.points:
            x, y = (at - span[0]) / (span[1] - span[0]) * width, 14 + (1 - value / top) * (height - 16)
            path += f"{'M' if last is None or at - last > GAP_STEPS * step else 'L'}{x:.1f},{y:.1f}"
            last = at
        colour = COLOURS[index % len(COLOURS)]
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return "".join(parts) + "</svg>"


def heat(found: list[Series], width: int, height: int, span: tuple[float, float]) -> str:
    """Draw a histogram's buckets over time: the darker, the more requests. `le` is a bucket's upper end in seconds."""
    bounds = sorted((series for series in found if series.name != "+Inf"), key=lambda series: float(series.name))
    counts: dict[float, list[float]] = {}
    for series in bounds:
        for at, value in series.points:
            counts.setdefault(at, []).append(value)
    cells = {at: [b - a for a, b in itertools.pairwise([0.0, *column])] for at, column in counts.items()}
    most = max((max(column) for column in cells.values()), default=1.0) or 1.0
    wide, high = width / POINTS + 0.5, (height - 14) / max(len(bounds), 1)
    parts = [f'<svg width="{width}" height="{height}"><text x="2" y="10">{number(float(bounds[-1].name), "s")}</text>']
    for at, column in cells.items():
        x = (at - span[0]) / (span[1] - span[0]) * width
        parts += [
            f'<rect x="{x:.1f}" y="{height - (row + 1) * high:.1f}" width="{wide:.1f}" height="{high + 0.3:.1f}" '
            f'fill="#c4162a" opacity="{(count / most) ** 0.5:.2f}"/>'
            for row, count in enumerate(column)
            if count > 0
        ]
    return "".join(parts) + "</svg>"


def panel_html(panel: Mapping[str, Any], prometheus: Prometheus) -> str:
    """Draw a panel at its place of the grid."""
    grid = panel["gridPos"]
    width, height = grid["w"] * COLUMN_PX - 8, grid["h"] * ROW_PX - 8
    style = f"left:{grid['x'] * COLUMN_PX}px;top:{grid['y'] * ROW_PX}px;width:{width}px;height:{height}px"
    title = escape(panel.get("title", ""))
    if panel["type"] == "row":
        return f'<h2 style="{style}">{title}</h2>'
    found = prometheus.ask(panel)
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit")
    if not found:
        body = '<p class="none">no data</p>'
    elif panel["type"] in {"stat", "table"}:
        shown = [f"<li>{escape(s.name)} <b>{number(s.points[-1][1], unit)}</b></li>" for s in found[:8]]
        body = f"<ul>{''.join(shown)}</ul>"
    elif panel["type"] == "heatmap":
        body = heat(found, width - 12, height - 30, (prometheus.start, prometheus.end))
    else:
        keys = "".join(
            f'<span style="color:{COLOURS[i % len(COLOURS)]}">{escape(s.name)}</span>' for i, s in enumerate(found[:8])
        )
        body = lines(found, width - 12, height - 48, (prometheus.start, prometheus.end), unit) + f"<p>{keys}</p>"
    return f'<section style="{style}"><h3>{title}</h3>{body}</section>'


STYLE = """body{margin:8px;font:12px sans-serif;background:#f4f5f5;position:relative}
section,h2{position:absolute;box-sizing:border-box}
section{background:#fff;border:1px solid #ddd;padding:4px 6px;overflow:hidden}
h2{font-size:14px;margin:6px 0}h3{font-size:12px;margin:0}
p,ul{margin:2px 0}ul{padding:0;list-style:none}li b{font-size:15px}
span{margin-right:10px}.none{color:#999}text{font-size:10px;fill:#666}"""


def picture(name: str, prometheus: Prometheus, folder: Path) -> Path:
    """Draw a dashboard into `folder` with Chromium."""
    board = json.loads((FOLDER / "grafana" / "json" / f"{name}.json").read_text())
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    panels = "".join(panel_html(panel, prometheus) for panel in board["panels"])
    page = f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{panels}"
    target = folder / f"dashboard_{name}.png"
    chromium = shutil.which("chromium") or sys.exit("chromium is not on PATH: apt-get install chromium")
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary, "page.html")
        file.write_text(page)
        size = f"--window-size={24 * COLUMN_PX + 16},{bottom * ROW_PX + 16}"
        flags = ("--headless", "--no-sandbox", "--hide-scrollbars", size, f"--screenshot={target}")
        subprocess.run([chromium, *flags, file.as_uri()], check=True, capture_output=True, timeout=120)
    return target


def main() -> None:
    """Draw all dashboards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prometheus", help="URL")
    parser.add_argument("--minutes", type=float, default=5.0, help="time that is shown, until now")
    parser.add_argument("--baseline", default="onnxruntime", help="engine of the engines' dashboard")
    parser.add_argument("--out", type=Path, default=IMAGES)
    options = parser.parse_args()
    now = time.time()
    chosen = {**VARIABLES, "baseline": options.baseline}
    prometheus = Prometheus(options.prometheus.rstrip("/"), now - 60 * options.minutes, now, chosen)
    for file in sorted((FOLDER / "grafana" / "json").glob("*.json")):
        print(picture(file.stem, prometheus, options.out))


if __name__ == "__main__":
    main()
