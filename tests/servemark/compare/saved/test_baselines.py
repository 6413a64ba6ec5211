"""A baseline by name: kept from one result, compared with the next from any folder."""

from pathlib import Path

import pytest

from servemark.compare.saved import baselines
from tests.support.command_line import Servemark
from tests.support.results import saved


def _repeats(folder: Path, p50_ms: float) -> Path:
    for number, share in enumerate((1.0, 0.999, 1.001, 1.0005, 0.9995)):
        saved(folder / str(number), p50_ms * share, seed=number)
    return folder


def test_a_later_result_is_compared_with_a_kept_one(
    servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines, "BASELINES", tmp_path / "baselines")
    assert "no baseline yet" in servemark("baseline").out
    before, after = _repeats(tmp_path / "before", 10), _repeats(tmp_path / "after", 12)
    assert "--baseline main" in servemark("baseline", "main", str(before)).err
    assert servemark("baseline").out.split() == ["main"]
    assert "--force" in servemark("baseline", "main", str(after)).err
    assert servemark("baseline", "one", str(after / "0" / "result.json")).code == 0
    assert servemark("compare", str(after / "0"), "--baseline", "one").code == 0
    for path in sorted(before.rglob("*"), reverse=True):  # the copy stands by itself
        path.unlink() if path.is_file() else path.rmdir()
    worse = servemark("compare", str(after), "--baseline", "main", "--fail-on", "p50")
    assert (worse.code, "p50" in worse.out) == (5, True)
    assert servemark("baseline", "main", str(after), "--force").code == 0
    assert servemark("compare", str(after), "--baseline", "main", "--fail-on", "p50").code == 0


def test_what_is_no_result_is_not_kept(servemark: Servemark, tmp_path: Path) -> None:
    done = servemark("baseline", "main", str(tmp_path))
    assert (done.code, "holds no result" in done.err) == (3, True)
