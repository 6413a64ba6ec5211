"""Several runs in one table: what ran is named by what is known of it."""

import pytest

from servemark.results.saved import Saved
from servemark.views.kinds import series
from servemark.views.render.markdown import to_markdown
from tests.support.measured import evenly, load_result


@pytest.mark.parametrize(("engine", "expected"), [("onnxruntime", "onnxruntime"), (None, "http")])
def test_a_server_that_tells_no_engine_is_named_by_the_protocol(engine: str | None, expected: str) -> None:
    result = load_result(("--request-rate", "40", "--duration", "10"), evenly(40, 10, 0.02))
    told = {**result, "engine": engine, "device": None, "precision": None}
    saved = Saved("runs", {"results": [told, {**told, "workload": "other"}]})
    assert series.article(saved).about == f"other on {expected}, ranking_tiny on {expected}"
    page = to_markdown([saved])
    assert f"| other on {expected} |" in page
    assert "None" not in page
