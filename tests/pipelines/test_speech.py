"""The speech pipeline of model_repo/: from a waveform to text, in a real Triton, against the same steps in process."""

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import tritonclient.http
import tritonclient.utils

from servemark import workload
from servemark.datasets import _audio
from servemark.models import deepspeech2
from servemark.models.synthesis import speech
from servemark.paths import CHECKOUT
from servers import open_server
from tests.support.exporting import Exports
from tests.support.triton import START_S, needs_triton

TRACKED = CHECKOUT / "model_repo"
PIPELINE, STEPS = "speech_to_text", ("speech_spectrogram", "speech_text")

needs_strings = pytest.mark.skipif(np.__version__ >= "2", reason="the wheel's Python backend has no strings on numpy 2")


@pytest.fixture(scope="module")
def client(
    exported: Exports, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tritonclient.http.InferenceServerClient]:
    """A Triton with the pipeline over the tiny Deep Speech 2; the pipeline alone is named, Triton loads its parts."""
    repository = tmp_path_factory.mktemp("model_repo")
    for name in (PIPELINE, *STEPS):
        shutil.copytree(TRACKED / name, repository / name)
    config = repository / PIPELINE / "config.pbtxt"
    config.write_text(config.read_text().replace('"deepspeech2_onnxruntime"', '"deepspeech2_tiny_onnxruntime"'))
    model = exported("deepspeech2_tiny", "onnxruntime").folder
    shutil.copytree(model, repository / model.name)
    with open_server("embedded", repository, [PIPELINE], start_timeout_s=START_S) as server:
        yield tritonclient.http.InferenceServerClient(server.http, connection_timeout=30, network_timeout=30)


def transcribe(client: tritonclient.http.InferenceServerClient, waveforms: Any) -> list[str]:
    tensor = tritonclient.http.InferInput("waveform", list(waveforms.shape), "FP32")
    tensor.set_data_from_numpy(waveforms)
    texts: list[list[bytes]] = client.infer(PIPELINE, [tensor]).as_numpy("text").tolist()
    return [text.decode() for [text] in texts]


def in_process(waveform: Any) -> str:
    """Log-spectrogram, eager PyTorch without padding, and the labels' characters."""
    spect = torch.from_numpy(_audio.log_spectrogram(waveform))[None]
    with torch.inference_mode():
        answer: Any = workload.get("deepspeech2_tiny").build()(spect, torch.tensor([[spect.shape[2]]]))
    [ids], [[length]] = (part.tolist() for part in answer)
    return "".join(deepspeech2.LABELS[i] for i in ids[:length])


@needs_triton
@needs_strings
def test_waveforms_become_the_text_of_the_same_steps_in_process(client: Any) -> None:
    rng = np.random.default_rng(0)
    texts = []
    for seconds in (0.3, 1.7, 5.2):
        waveform = speech.waveform(rng, seconds)
        [text] = transcribe(client, waveform[None])
        assert text == in_process(waveform)
        texts.append(text)
    assert len(set(texts)) == 3
    assert len(texts[2]) > 20


@needs_triton
@needs_strings
def test_waveforms_of_one_request_do_not_touch_each_other(client: Any) -> None:
    rng = np.random.default_rng(1)
    waveforms = np.stack([speech.waveform(rng, 1.5) for _ in range(3)])
    assert transcribe(client, waveforms) == [in_process(waveform) for waveform in waveforms]


@needs_triton
def test_too_short_a_waveform_is_the_callers_error(client: Any) -> None:
    with pytest.raises(tritonclient.utils.InferenceServerException, match="160 samples; at least 161"):
        transcribe(client, np.zeros((1, 160), np.float32))


@needs_triton
@pytest.mark.skipif(np.__version__ < "2", reason="strings work on numpy 1")
def test_text_that_cannot_be_passed_is_an_error(client: Any) -> None:
    with pytest.raises(tritonclient.utils.InferenceServerException, match="cannot pass strings with numpy 2"):
        transcribe(client, np.zeros((1, 161), np.float32))


def backend_model(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a step as NVIDIA's container does: no servemark beside it, and Triton's classes defined only later."""
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "servers.triton_backend.tensors", None)
    path = TRACKED / name / "1" / "model.py"
    spec = importlib.util.spec_from_file_location(f"{name}_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_steps_agree_with_the_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    front: Any = backend_model("speech_spectrogram", monkeypatch)
    back: Any = backend_model("speech_text", monkeypatch)
    assert deepspeech2.Sizes().buckets == front.BUCKETS
    assert back.LABELS == deepspeech2.LABELS
    for waveform in (speech.waveform(np.random.default_rng(0), 1.3), np.zeros(1_000, np.float32)):
        np.testing.assert_allclose(front.log_spectrogram(waveform), _audio.log_spectrogram(waveform), atol=1e-5)


@pytest.mark.parametrize("name", [PIPELINE, *STEPS])
def test_pipeline_needs_nothing_but_triton_and_numpy(name: str) -> None:
    """No servemark, no scipy: NVIDIA's container has neither."""
    for path in Path(TRACKED / name).rglob("*.py"):
        imports = [line.split()[1] for line in path.read_text().splitlines() if line.startswith(("import ", "from "))]
        assert {name.partition(".")[0] for name in imports} <= {"collections", "numpy", "triton_python_backend_utils"}
