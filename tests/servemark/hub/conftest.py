"""Models of libraries without their hub, kept in a folder of the test's own."""

from pathlib import Path

import pytest

from servemark.workload.imported import MODELS

torch = pytest.importorskip("torch")
for library in ("timm", "torchvision", "transformers"):
    pytest.importorskip(library)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep descriptions apart, and download nothing: the machine that tests may have the network."""
    monkeypatch.setenv(MODELS, str(tmp_path / "models"))

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no downloads in a test")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", refuse)
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", refuse)
    monkeypatch.setattr("torchvision.models._api.WeightsEnum.get_state_dict", refuse)
