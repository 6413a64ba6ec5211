"""The GPU's work in one go, with stages that need none: each ends alone, and what it has written stays."""

import sys
from pathlib import Path

import pytest

from servemark.errors import ExitCode
from tools import gpu_session
from tools.gpu_session import Stage, carry_out

WRITES = "import pathlib, sys; pathlib.Path(sys.argv[1], 'deep').mkdir(); print('said'); "
WRITES += "pathlib.Path(sys.argv[1], 'deep', 'kept.md').write_text('kept'); sys.exit(int(sys.argv[2]))"
STUBBORN = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"


def python(name: str, code: str, *arguments: str, limit_s: float = 60, done: tuple[int, ...] = (0, 2)) -> Stage:
    return Stage(name, (sys.executable, "-c", code, *arguments), limit_s, done, ("kept.md",))


@pytest.mark.parametrize(("code", "ending"), [(0, "done"), (2, "done"), (1, "failed with exit code 1")])
def test_a_stage_leaves_its_log_and_its_results(tmp_path: Path, code: int, ending: str) -> None:
    assert carry_out(python("work", WRITES, "{out}", str(code)), tmp_path, 100) == ending
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "work.txt": "said\n",
        "work-kept.md": "kept",
    }


@pytest.mark.parametrize("code", ["import time; time.sleep(600)", STUBBORN])
def test_what_hangs_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(gpu_session, "GRACE_S", 1)
    assert carry_out(python("work", code, limit_s=0.5), tmp_path, 100) == "interrupted after 0 s"
    assert [path.name for path in tmp_path.iterdir()] == ["work.txt"]


def test_no_stage_begins_without_time(tmp_path: Path) -> None:
    assert carry_out(python("work", WRITES, "{out}", "0"), tmp_path, 10) == "not begun: no time left"
    assert not list(tmp_path.iterdir())


def test_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda _: "NVIDIA H200")
    monkeypatch.setattr(gpu_session, "CHECKOUT", tmp_path)
    monkeypatch.setattr(gpu_session, "ENGINES", ["pytorch", "tensorrt"])
    monkeypatch.setattr(gpu_session, "unusable", {"pytorch": None, "tensorrt": "it is not there"}.get)
    work = [python("good", WRITES, "{out}", "0"), python("bad", WRITES, "{out}", "1")]
    monkeypatch.setattr(gpu_session, "stages", lambda: work)
    monkeypatch.setattr(sys, "argv", ["on_gpu"])
    assert gpu_session.main() == 1
    folder = tmp_path / "docs" / "results" / "h200"
    summary = (folder / "summary.md").read_text()
    assert "NVIDIA H200" in summary.splitlines()[0]
    assert "| good | done |" in summary
    assert "| bad | failed with exit code 1 |" in summary
    assert "- tensorrt: it is not there" in summary
    assert "pytorch" not in summary
    monkeypatch.setattr(sys, "argv", ["on_gpu", "good", "--out", str(tmp_path / "other")])
    assert gpu_session.main() == 0
    assert (tmp_path / "other" / "good-kept.md").is_file()
    monkeypatch.setattr(sys, "argv", ["on_gpu", "nothing"])
    with pytest.raises(SystemExit):
        gpu_session.main()
    assert "no stage here is called nothing: good, bad" in capsys.readouterr().err


def test_without_a_gpu_nothing_is_tried(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["on_gpu"])
    assert gpu_session.main() == ExitCode.BAD_INPUT
    assert "sees no NVIDIA GPU" in capsys.readouterr().err


def test_comparisons_are_of_what_can_use_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_session, "unusable", {"tensorrt": "no", "tensorrt_rtx": "no", "tensorflow": "no"}.get)
    compared = {stage.name: stage.command for stage in gpu_session.stages() if "compare" in stage.command}
    assert list(compared) == [*gpu_session.COMPARISONS]
    engines = {name: command[command.index("--engines") + 1] for name, command in compared.items()}
    for name, (_, asked) in gpu_session.COMPARISONS.items():
        usable = [each for each in asked.split(",") if each.startswith(("pytorch", "onnxruntime"))]
        assert engines[name].split(",") == usable
    monkeypatch.setattr(
        gpu_session, "unusable", {"tensorrt": "no", "tensorrt_rtx": "no", "tensorflow": "no", "onnxruntime": "no"}.get
    )
    compared = {stage.name: stage.command for stage in gpu_session.stages() if "compare" in stage.command}
    assert all("onnxruntime" not in ",".join(command) for command in compared.values())
    monkeypatch.setattr(gpu_session, "unusable", lambda engine: None if engine == "tensorflow" else "no")
    assert not [stage.name for stage in gpu_session.stages() if "compare" in stage.command]  # of one engine


def test_every_stages_command_is_understood() -> None:
    """The contenders are read as the command line reads them."""
    from servemark.compare.interleaved.contenders import parse_contenders

    for _, text in gpu_session.COMPARISONS.values():
        assert len(parse_contenders(text, "fp32")) == text.count(",") + 1
