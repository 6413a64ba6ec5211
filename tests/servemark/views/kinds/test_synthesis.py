"""A synthetic network's article: the match in one sentence, and what is off is marked."""

from pathlib import Path

from servemark.views.kinds import synthesis
from servemark.views.render.markdown import to_markdown
from tests.support.saved_documents import documents


def test_the_match_and_what_is_off(tmp_path: Path) -> None:
    saved = documents(tmp_path)["synthesis"]
    assert synthesis.article(saved).answer == (
        "made: mean distance 0.100 standard deviations, 0.700 for synnet; all totals are within 5%"
    )
    assert [check.ok for check in synthesis.checks(saved)] == [True]
    assert len(synthesis.records(saved)) == 4
    page = to_markdown([saved])
    assert "3.0% of googlenet" in page
    assert "| onnxruntime | 1 | 12 | 15 | 1.25 |" in page.replace(".00", "")
