"""`servemark serve`: a model file that cannot be served names the command that makes it."""

from pathlib import Path

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
    if content is not None:
        (folder / "1" / "model.onnx").write_bytes(content)
    ports = [flag for kind in ("http", "grpc", "metrics") for flag in (f"--{kind}-port", "0")]
    code, _, err = servemark("serve", TINY, "--model-repository", str(tmp_path), *ports)
    assert code == BAD_INPUT
    assert ("holds no model file" if content is None else "model.onnx") in err
    assert f"servemark export {TINY} --engine onnxruntime --force" in err
