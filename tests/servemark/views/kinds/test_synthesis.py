"""A synthetic network's article: the match in one sentence, and what is off is marked."""

from pathlib import Path

from servemark.views.kinds import synthesis
from servemark.views.render.markdown import to_markdown
from tests.support.saved_documents import documents


def test_the_match_and_what_is_off(tmp_path: Path) -> None:
    saved = documents(tmp_path)["synthesis"]
    assert synthesis.article(saved).answer == (
        "made: mean distance 0.125 standard deviations, 0.875 for synnet; operations and parameters are within 5%"
        "; points of time off by more than 5: convolution on onnxruntime +10"
    )
    # bytes are off by 10 %, and are not judged
    assert [(check.name, check.ok) for check in synthesis.checks(saved)] == [
        ("flops of convolution within 5%", True),
        ("flops of recurrent within 5%", True),
        ("time of convolution on onnxruntime within 5 points", False),
    ]
    assert len(synthesis.records(saved)) == 6
    page = to_markdown([saved])
    assert "3.0% of googlenet" in page
    assert "| onnxruntime | 1 | 12 | 15 | 1.25 |" in page.replace(".00", "")
