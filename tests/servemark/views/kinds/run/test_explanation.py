"""The explanation of a run on a page: the sentence, the change once, and every part that there is."""

import pytest

from servemark.explain.ladder import tried
from servemark.views.blocks import Figure, Lines
from servemark.views.kinds.run.explanation import explained
from tests.support.planted_runs import planted


@pytest.mark.parametrize("cause", ["one instance too few", "a stopped server", "slow executions"])
def test_the_change_stands_once_with_what_it_is_predicted_to_bring(cause: str) -> None:
    found = planted(cause, 1).explained()
    blocks = explained(found)
    lines = [line for block in blocks if isinstance(block, Lines) for line in block.lines]
    assert lines[0] == found["sentence"]
    fix = found["fixes"][0]
    assert " ".join(lines).count(fix["words"]) == 1
    assert ("not predicted" in lines[1]) == (fix["p99_ms"] is None)
    [waterfall] = [block for block in blocks if isinstance(block, Figure)]
    shown = {row[0] for row in waterfall.table.rows}
    assert shown >= {part["words"] for part in found["parts"] if part["tail_ms"] > 0.001} | {"in all"}
    assert "opening a connection" not in shown


@pytest.mark.parametrize("percentile", ["p99", "p90"])
def test_what_was_tried_stands_beside_what_was_predicted(percentile: str) -> None:
    found = planted("one instance too few", 1).explained()
    trial = found["tried"] = tried([(20.0, 40.0)] * 5, 0.6, percentile)
    if percentile == "p99":
        del trial["percentile"]  # a document of an older version
    lines = [line for block in explained(found) if isinstance(block, Lines) for line in block.lines]
    [line] = [line for line in lines if line.startswith("tried")]
    assert f"{percentile} with the first fix / now 0.50 " in line
    assert "5 rounds, predicted 0.60" in line
