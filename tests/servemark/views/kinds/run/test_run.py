"""Lines of a run's report below its latencies."""

from pathlib import Path
from typing import Any

import pytest

from servemark.results import directory
from servemark.results.saved import Saved
from servemark.views.kinds.run import facts
from tests.support.measured import evenly, load_result

COLUMN = {"name": "node_load1", "unit": "", "labels": {}, "counter": False, "values": [0.5], "reason": ""}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"columns": [COLUMN]}, "scrape node: 1 readings of 1 figures, in series.json"),
        ({"absent": {"metrics": "refused"}}, "scrape node: not read (refused)"),
    ],
)
def test_an_exporter_is_said_to_be_read_or_why_not(tmp_path: Path, found: Any, words: str) -> None:
    result = load_result(("--request-rate", "40", "--scrape", "node=http://h:9/metrics#node_"), evenly(40, 15, 0.02))
    usual: Any = {
        "period_s": 1.0,
        "readings_per_point": 1,
        "readings": 1,
        "skipped": 0,
        "cpu_s": 0.1,
        "longest_ms": 2.0,
    }
    series = [{"source": "node", **usual, "time_s": [0.5], "columns": [], "absent": {}, **found}]
    ends = {"start_epoch_s": 0.0, "measured_from_s": 0.0, "measured_until_s": 1.0}
    whole: Any = {"schema_version": 5, "kind": "machine_series", **ends, "series": series}
    directory.write_series(tmp_path, whole)
    assert words in facts(Saved("run", result, tmp_path), result)
