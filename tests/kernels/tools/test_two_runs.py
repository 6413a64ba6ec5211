"""Equal runs of kernels: the pairs that count as equal."""

import copy
from typing import Any

from kernels.tools.two_runs import lines
from servemark.results.schema.header import opening
from tests.support.saved_documents import kernels


def run(factor: float, probe: float) -> Any:
    """A run that took so many times as long, on a machine whose product did."""
    document = kernels(dict(opening()))
    own = {"bound": "compute", "probe": {"product_ms": 2.0 * probe, "copy_ms": 4.0}}
    [case, *_] = document["cases"]
    document["cases"] = [
        copy.deepcopy(case) | own | {"label": f"n={n}", "ms": case["ms"] | {"median": factor * n}} for n in range(1, 7)
    ]
    return document


def test_pairs_with_and_without_what_the_machine_changed_by() -> None:
    head, *pairs, result, _ = lines([run(1.0, 1.0), run(1.2, 1.2), run(1.04, 1.0)])
    assert head.split()[0] == "pair"
    assert [row.split()[:2] for row in pairs] == [["1", "to"], ["1", "to"], ["2", "to"]]
    assert pairs[0].split()[-4:] == ["1.200", "1.200", "1.000", "1.000"]
    assert result == "1 of 3 pairs within 5 %; without what the machine itself changed by, 3"
