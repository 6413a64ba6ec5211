"""Message about a load generator that ended without a result."""

from pathlib import Path

import pytest

from servemark import interrupts
from servemark.errors import NoResultError
from servemark.runs.locust_process import read_result


@pytest.mark.parametrize(("code", "exit_code"), [(-9, interrupts.EXIT_CODE), (3, 3), (0, 99)])
def test_the_exit_code_is_a_documented_one(
    code: int, exit_code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NoResultError) as ended:
        read_result(tmp_path / "run", code)
    assert ended.value.exit_code == exit_code
    assert ("ended by SIGKILL" in capsys.readouterr().err) is (code < 0)
