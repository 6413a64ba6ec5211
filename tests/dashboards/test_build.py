"""The dashboards: their JSON is what the code makes, keeps Grafana's schema, and explains each panel."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dashboards import FOLDER
from dashboards.build import DASHBOARDS, build
from servemark.figures.registry import registry
from servemark.telemetry.metrics.catalog import Kind, by_name

JSON = FOLDER / "grafana" / "json"
SCHEMA = json.loads((Path(__file__).parent / "grafana" / "schema.json").read_text())
"""Grafana's own (tools/grafana_schema.py says where it is from)."""
OF_THE_SOURCE = {"expr", "step", "titleFormat", "textFormat", "useValueForTime"}
"""Keys that an annotation of Grafana's Prometheus data source has beyond the dashboard's schema."""
NOT_SHOWN = {"servemark_stage", "servemark_objective_allowed_ratio"}
"""The stages are marks at the time when they begin; the share is a part of the burn rate's rule."""
Document = dict[str, Any]
each = pytest.mark.parametrize("name", DASHBOARDS)


def document(name: str) -> Document:
    return dict(json.loads((JSON / f"{name}.json").read_text()))


def panels(name: str) -> list[Document]:
    return [panel for panel in document(name)["panels"] if panel["type"] != "row"]


def test_the_json_is_what_the_code_makes(tmp_path: Path) -> None:
    made = {file.name: file.read_text() for file in build(tmp_path)}
    assert made == {file.name: file.read_text() for file in JSON.iterdir()}, "python -m dashboards.build"


@each
def test_a_dashboard_and_its_panels_keep_grafana_s_schemas(name: str) -> None:
    board = document(name)
    for annotation in board["annotations"]["list"]:
        assert annotation.keys() >= OF_THE_SOURCE
        for key in OF_THE_SOURCE:
            del annotation[key]
    jsonschema.validate(board, SCHEMA["dashboard"])
    for panel in panels(name):
        custom = panel.get("fieldConfig", {}).get("defaults", {}).get("custom", {})
        schema = SCHEMA[panel["type"].replace("-", "")]
        fields = {"fieldConfig": custom} if "FieldConfig" in schema["definitions"] else {}
        jsonschema.validate({"options": panel["options"], **fields}, schema)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [("refresh", 5), ("templating", {"list": [{"name": "engine", "type": "querry"}]}), ("panel", [])],
)
def test_the_schema_would_notice(place: str, wrong: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document("fleet") | {"annotations": {}, place: wrong}, SCHEMA["dashboard"])


@each
def test_every_panel_says_what_it_shows_and_no_two_lie_over_each_other(name: str) -> None:
    found = panels(name)
    assert all(panel["title"] and panel["description"].endswith(".") and panel["targets"] for panel in found)
    for panel in found:
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    places = [panel["gridPos"] for panel in document(name)["panels"]]
    cells = [
        (x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert all(column < 24 for column, _ in cells)


@each
def test_every_query_asks_for_what_is_chosen(name: str) -> None:
    variables = {variable["name"] for variable in document(name)["templating"]["list"]}
    assert variables >= {"datasource", "workload", "engine", "device", "run"}
    for panel in panels(name):
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval", "__range"}
            assert used <= variables
            for selector in re.findall(r"servemark_\w+\{(.*?)\}", target["expr"]):
                assert {"workload", "engine", "device"} <= set(re.findall(r"(\w+)=~?", selector))


def test_every_metric_that_is_asked_for_is_exposed() -> None:
    files = [*JSON.iterdir(), FOLDER / "prometheus" / "rules" / "slo.yml"]
    asked = {name for file in files for name in re.findall(r"\bservemark_[a-z0-9_]+(?=[\[{])", file.read_text())}
    exposed = {metric.name + "_bucket" * (metric.kind is Kind.HISTOGRAM) for metric in by_name().values()}
    assert asked <= exposed
    # Figures that are no state of a run are for the result's own page, and for whoever asks for them.
    figures = {figure.metric for figure in registry().values()}
    assert not exposed - asked - NOT_SHOWN - figures


@each
def test_the_dashboards_link_to_each_other_and_mark_the_stages(name: str) -> None:
    board = document(name)
    assert board["uid"] == f"servemark-{name}"
    [link] = board["links"]
    assert link["tags"] == board["tags"] == ["servemark"]
    assert link["includeVars"]
    [stages] = board["annotations"]["list"]
    assert stages["useValueForTime"]
    assert "1000 * servemark_stage_start_timestamp_seconds{" in stages["expr"]
