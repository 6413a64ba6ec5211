"""Inputs are regular files of a bounded size: a pipe is not waited for, a device is not opened."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from loadgen.endpoints.endpoint import endpoint_of
from loadgen.inputs.files import from_npz_folder, has_validation, read_steps
from loadgen.inputs.sources import samples_of
from loadgen.load.trace import read_trace
from loadgen.transport.access import Access, read_headers
from servemark import files
from servemark.datasets._text import lines
from servemark.documents.files import read_request
from servemark.errors import ServemarkError
from servemark.quality.ctc import LanguageModel, decoder
from servemark.repository.entry import CONFIG, Entry, config_text
from servemark.results import directory
from servemark.results.saved import Saved
from servemark.workload import get
from servemark.workload.imported import read_model
from servemark.workload.registry import files_of, load_file
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.language_model import ALPHABET, THE_CAT, heard
from tests.support.load_config import config


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(str(path))


MAKERS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "empty device": lambda path: path.symlink_to("/dev/null"),
    "terminal": lambda path: path.symlink_to("/dev/ptmx"),
    "socket": _socket,
    "folder": Path.mkdir,
    "nothing": lambda _: None,
    "link to itself": lambda path: path.symlink_to(path),
}
READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "headers": ("headers", read_headers),
    "--config": ("run.yaml", read_request),
    "trace": ("trace.csv", read_trace),
    "inputs as JSON": ("inputs.json", lambda path: list(read_steps(path, get("ranking_tiny")))),
    "inputs as a folder": ("a.npz", lambda path: list(from_npz_folder(path.parent, get("ranking_tiny")))),
    "result": ("result.json", lambda path: directory.read(path.absolute())),
    "histograms": ("histograms.json", lambda path: directory.read_histograms(path.parent)),
    "workloads": ("evil.py", lambda path: load_file(files_of([path])[0])),
    "imported model": ("model.json", lambda path: read_model(path.parent)),
    "CA": ("ca.pem", lambda path: Access(ca=path).context("https://h:1")),
}


@pytest.mark.parametrize("kind", [*MAKERS])
@pytest.mark.parametrize("reader", [*READERS])
def test_what_is_no_regular_file_is_refused_with_words(reader: str, kind: str, tmp_path: Path) -> None:
    name, read = READERS[reader]
    if (reader, kind) == ("inputs as a folder", "nothing"):
        pytest.skip("an empty folder holds no sample, which its caller says")
    MAKERS[kind](tmp_path / name)
    with pytest.raises(ServemarkError):
        read(tmp_path / name)


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind not in ("folder", "nothing", "link to itself")])
def test_what_may_be_missing_is_refused_where_it_is_no_file(kind: str, tmp_path: Path) -> None:
    MAKERS[kind](tmp_path / "x.json")
    assert not has_validation(tmp_path / "x.json")
    MAKERS[kind](tmp_path / "series.json")
    assert Saved("x", {}, tmp_path).machine_series is None
    entry = Entry(tmp_path, "m", "e")
    entry.folder.mkdir()
    MAKERS[kind](entry.manifest)
    with pytest.raises(ServemarkError, match="cannot be read"):
        entry.read_manifest()


def test_a_command_waits_for_no_pipe(servemark: Servemark, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "secret")
    code, _, err = servemark("run", "ranking_tiny", "-u", "http://h:1", "--headers", str(tmp_path / "secret"))
    assert code == BAD_INPUT
    assert f"--headers {tmp_path / 'secret'}: is a pipe, not a regular file" in err


@pytest.mark.parametrize("kind", ["pipe", "endless device", "nothing"])
def test_inputs_are_a_file_or_a_folder(kind: str, tmp_path: Path) -> None:
    MAKERS[kind](tmp_path / "inputs")
    with pytest.raises(ServemarkError, match=r"inputs: (neither a regular file|no such file)"):
        samples_of(config("ranking_tiny", "--input-data", str(tmp_path / "inputs")))


def test_a_file_is_of_a_bounded_size(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert files.content(file, 5) == b"12345"
    assert files.text(file, 5) == "12345"
    with pytest.raises(OSError, match="larger than 0 MiB"):
        files.content(file, 4)
    os.truncate(file, 1 << 40)  # a hole, which takes no room and is not read
    with pytest.raises(OSError, match="larger than 1 GiB"):
        files.content(file, files.DATA_BYTES)


def test_a_file_that_says_it_is_empty_is_read() -> None:
    assert files.content(Path("/proc/self/status"), files.TEXT_BYTES).startswith(b"Name:")
    with pytest.raises(OSError, match="larger than"):
        files.content(Path("/proc/self/status"), 5)


def test_lines_keep_their_ends(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\r\nb")
    with files.opened_text(tmp_path / "file") as lines:
        assert list(lines) == ["a\r\n", "b"]


ENDPOINT = '{"about": "x",\n"request": {"path": "/", "body": 1}, "answer": {"row": ""}}'
TEXTS: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "headers": ("headers", "x-a: b\nx-c: d", read_headers),
    "--config": ("run.yaml", "load:\n  {kind: constant-rate, rate: 9}", lambda path: read_request(path).request),
    "trace": ("t.csv", "time_s,sample\n0.1,0", lambda path: read_trace(path).times_s.tolist()),
    "trace of JSON": ("t.jsonl", '{"time_s": 1}\n{"time_s": 2}', lambda path: read_trace(path).times_s.tolist()),
    "inputs as JSON": (
        "inputs.json",
        '{"data":\n[{"user": [1], "seq": [1, 2, 3, 4, 5]}]}',
        lambda path: repr(list(read_steps(path, get("ranking_tiny")))),
    ),
    "endpoint": ("endpoint.json", ENDPOINT, lambda path: endpoint_of(str(path))),
    "configuration": (CONFIG, 'name: "m"\nmax_batch_size: 8', lambda path: config_text(path.parent)),
    "sentences": ("texts.txt", "a b\nc d", lambda path: [text for _, text in lines(path, "")]),
}
"""Texts that a person writes, by name: each of two lines, and what reads it."""


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_may_begin_with_a_byte_order_mark(kind: str, tmp_path: Path) -> None:
    name, text, read = TEXTS[kind]
    (tmp_path / name).write_text(text)
    plain = read(tmp_path / name)
    (tmp_path / name).write_bytes(text.encode("utf-8-sig"))
    os.utime(tmp_path / name, (1, 1))  # another file to what remembers files
    assert read(tmp_path / name) == plain


def test_a_language_model_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig"):
        (tmp_path / encoding).write_text(THE_CAT, encoding)
        model = LanguageModel(tmp_path / encoding, alpha=0.5, beta=1.5, beam_width=100)
        assert decoder(ALPHABET, model)(heard()) == "the cat"
    (tmp_path / "other").write_text(THE_CAT, "utf-16")
    with pytest.raises(ServemarkError, match=r"other cannot be read: it is UTF-16"):
        decoder(ALPHABET, LanguageModel(tmp_path / "other", alpha=0.5, beta=1.5, beam_width=100))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("kind", TEXTS)
def test_another_unicode_is_named(kind: str, encoding: str, tmp_path: Path) -> None:
    name, text, read = TEXTS[kind]
    (tmp_path / name).write_bytes(text.encode(encoding))
    with pytest.raises(ServemarkError, match=rf"{name}.* it is {encoding[:6].upper()}, not UTF-8\n.*iconv -f UTF-"):
        read(tmp_path / name)


@pytest.mark.parametrize("kind", TEXTS)
def test_a_byte_that_is_not_text_is_named_by_its_line(kind: str, tmp_path: Path) -> None:
    name, text, read = TEXTS[kind]
    first, second = text.encode().split(b"\n")
    (tmp_path / name).write_bytes(first + b"\n" + second[:1] + b"\xe9" + second[1:])
    with pytest.raises(ServemarkError, match=rf"{name}.*(line 2: byte 0xe9 is not UTF-8|:2: no UTF-8)"):
        read(tmp_path / name)
