"""JUnit: a test case for each constraint and objective; a failure says what to do."""

from pathlib import Path
from xml.etree import ElementTree as ET

from servemark.results.saved import Saved
from servemark.views.render.junit import to_junit
from tests.support.saved_documents import run


def parsed(*found: Saved) -> ET.Element:
    return ET.fromstring(to_junit(found))  # noqa: S314 - our own


def test_a_failure_carries_its_remedy_and_its_figures(tmp_path: Path) -> None:
    found = run(tmp_path / "a")
    verdict = found.document["verdict"]
    broken = {
        "name": "error_rate",
        "ok": False,
        "value": 0.2,
        "limit": 0.01,
        "unit": "share",
        "remedy": "see the errors",
    }
    verdict["constraints"] = [broken]
    verdict["objectives"][0] |= {"status": "undecided", "remedy": "run longer"}
    root = parsed(found)
    failure = root.find(".//testcase[@name='constraint error_rate']/failure")
    assert failure is not None
    assert failure.get("message") == "see the errors"
    assert failure.text == "0.200 (limit 0.010 share)\nsee the errors"
    undecided = root.find(".//testcase[@name='objective p90:50']/failure")
    assert undecided is not None
    assert undecided.get("message") == "undecided: run longer"
    assert root.get("failures") == "2"


def test_words_that_xml_cannot_hold_are_shown_as_their_codes(tmp_path: Path) -> None:
    found = run(tmp_path / "a", workload="<a>\x00\x1b\ufffe&\"'")
    [suite] = parsed(found)
    assert str(suite[0].get("classname")).startswith("<a>\\u0000\\u001b\ufffd&\"'.")
