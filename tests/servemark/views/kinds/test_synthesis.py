"""A synthetic network's article: the match in one sentence, and what is off is marked."""

import copy

from servemark.results.saved import Saved
from servemark.views.kinds import synthesis
from servemark.views.render.markdown import to_markdown


def test_the_match_and_what_is_off(saved: dict[str, Saved]) -> None:
    found = copy.deepcopy(saved["synthesis"])
    assert synthesis.article(found).answer == (
        "made: mean distance 0.125 standard deviations, 0.875 for synnet"
        "; off by more than 5%: bytes of convolution -10.0% and bytes of recurrent -10.0%"
        "; points of time off by more than 5: convolution on onnxruntime +10"
    )
    assert [(check.name, check.ok) for check in synthesis.checks(found)] == [
        ("flops of convolution within 5%", True),
        ("bytes of convolution within 5%", False),
        ("flops of recurrent within 5%", True),
        ("bytes of recurrent within 5%", False),
        ("time of convolution on onnxruntime within 5 points", False),
    ]
    assert len(synthesis.records(found)) == 6
    for kind in found.document["candidates"][0]["kinds"]:
        kind["totals"][1]["ours"] = kind["totals"][1]["given"]
    assert "synnet; operations, parameters and bytes are within 5%;" in synthesis.article(found).answer
    page = to_markdown([found])
    assert "3.0% of googlenet" in page
    assert "| onnxruntime | 1 | 12 | 15 | 1.25 |" in page.replace(".00", "")
