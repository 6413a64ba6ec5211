"""A run as a process of its own: silent, with its result or with the reason why there is none."""

from pathlib import Path

import pytest

from servemark import interrupts
from servemark.errors import NoResultError
from servemark.output import SAYS
from servemark.runs.locust_process import drive, read_result
from servemark.workload import get
from tests.support.load_config import config
from tests.support.locust_run import server_of


@pytest.mark.parametrize(("code", "exit_code"), [(-9, interrupts.EXIT_CODE), (3, 3), (0, 99)])
def test_the_exit_code_is_a_documented_one(code: int, exit_code: int, tmp_path: Path) -> None:
    with pytest.raises(NoResultError) as ended:
        read_result(tmp_path / "run", code)
    assert ended.value.exit_code == exit_code
    assert ("ended by SIGKILL" in ended.value.said) is (code < 0)


def test_the_library_prints_nothing_and_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A load; then a run without a server, whose error says why."""
    monkeypatch.delenv(SAYS, raising=False)  # as where no command has set it
    with server_of(get("ranking_tiny"), delay_s=0.005) as server:
        flags = ["--url", server.url, "--duration", "0.3", "--warmup", "0.1", "--out", str(tmp_path)]
        asked = config("ranking_tiny", *flags)
        result = drive(asked.changed(seed=2))
        assert repr(asked) == f"<LoadConfig ranking_tiny_onnxruntime: closed loop, concurrency 1, at {server.url}>"
    assert result["request"]["inputs"]["seed"] == 2
    with pytest.raises(NoResultError, match=r"servemark: no server answers at .*\n  fix: ") as refused:
        drive(asked)
    assert refused.value.exit_code == 3
    assert capfd.readouterr() == ("", "")
