"""`servemark serve`: model files that cannot be served, and what it says of the server that it has started."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servemark.workload import get
from tests.support.command_line import BAD_INPUT, Servemark

TINY = "ranking_tiny"


@pytest.mark.parametrize("content", [None, b"onnx"], ids=["missing", "damaged"])
def test_serving_a_bad_model_file(content: bytes | None, servemark: Servemark, tmp_path: Path) -> None:
    from exporters.pipeline import config_pbtxt

    folder = tmp_path / f"{TINY}_onnxruntime"
    (folder / "1").mkdir(parents=True)
    rendered = config_pbtxt.render(get(TINY), model=folder.name, engine="onnxruntime", artifact="model.onnx")
    (folder / "config.pbtxt").write_text(rendered)
    (folder / "export.json").write_text("{}")  # without it the entry would be somebody's own
    if content is not None:
        (folder / "1" / "model.onnx").write_bytes(content)
    ports = [flag for kind in ("http", "grpc", "metrics") for flag in (f"--{kind}-port", "0")]
    code, _, err = servemark("serve", TINY, "--model-repository", str(tmp_path), *ports)
    assert code == BAD_INPUT
    assert ("holds no model file" if content is None else "model.onnx") in err
    assert f"servemark export {TINY} --engine onnxruntime --force" in err


@pytest.mark.parametrize(
    ("mode", "host", "warned"),
    [
        ("embedded", "0.0.0.0", True),
        ("embedded", "192.0.2.1", True),
        ("embedded", "127.0.0.1", False),
        ("docker", "0.0.0.0", False),
    ],
)
def test_an_embedded_triton_beyond_loopback_is_warned_of(
    mode: str,
    host: str,
    warned: bool,
    tmp_path: Path,
    servemark: Servemark,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    @contextmanager
    def open_server(*_: Any, **__: Any) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(mode=mode, http="h:1", grpc="h:2", metrics="h:3", log="log", check=interrupted)

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.pbtxt").touch()
    monkeypatch.setattr("servers.open_server", open_server)
    done = servemark("serve", "mine", "--host", host, "--model-repository", str(tmp_path))
    assert done.code == 0, done.err
    assert ("known holes" in done.err) is warned
