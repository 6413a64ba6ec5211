"""LibriSpeech: read English speech, 16 kHz. Panayotov et al. 2015, "Librispeech: an ASR corpus" (ICASSP).

    LibriSpeech/test-clean/<speaker>/<chapter>/<speaker>-<chapter>-<utterance>.flac      (or .wav, once converted)
    LibriSpeech/test-clean/<speaker>/<chapter>/<speaker>-<chapter>.trans.txt             ("<utterance id> TEXT" a line)

A folder of recordings without transcripts is read as well.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from servemark.datasets import CATALOGUE, Origin, _audio, _text
from servemark.errors import InputDataError

KEY = "librispeech"
ORIGIN = Origin("openslr.org/12 (test-clean)", 347, "CC BY 4.0", size_from=CATALOGUE, terms_from=CATALOGUE)
SUBSET = Path("LibriSpeech", "test-clean")
TRANSCRIPT = ".trans.txt"
LAYOUT = "expected `<speaker>-<chapter>-<utterance> TEXT`; https://www.openslr.org/12 has the official archive"


@dataclass(frozen=True)
class Utterance:
    """A recording [samples] and what is said in it, None where nobody wrote it down."""

    path: Path
    waveform: _audio.Waveform
    text: str | None


def read(folder: Path) -> Iterator[Utterance]:
    """Read test-clean below `folder`, else every utterance below it, in order of path.

    Raises InputDataError naming file and line, for a folder without recordings at once.
    """
    root, transcripts = _transcripts(folder)
    recordings = sorted(path for path in root.rglob("*") if path.suffix.lower() in _audio.SUFFIXES)
    if not transcripts and not recordings:
        raise InputDataError(
            f"{root} holds neither *{TRANSCRIPT} nor WAV or FLAC files",
            fix=f"lay the official archive out as {folder / SUBSET}, or give a folder of recordings",
        )
    if not transcripts:
        return (Utterance(path, _audio.load(path), None) for path in recordings)
    return (Utterance(path, _audio.load(path), text) for path, text in _lines(transcripts))


def transcribed(folder: Path) -> list[tuple[Path, str]]:
    """List the recordings with what is said in them. Raises InputDataError naming file and line."""
    root, transcripts = _transcripts(folder)
    if not transcripts:
        raise InputDataError(f"{root} holds no *{TRANSCRIPT}", fix=f"lay the official archive out as {folder / SUBSET}")
    return list(_lines(transcripts))


def _transcripts(folder: Path) -> tuple[Path, list[Path]]:
    """Return test-clean, or the folder itself, and the transcripts below it."""
    root = folder / SUBSET if (folder / SUBSET).is_dir() else folder
    return root, sorted(root.rglob(f"*{TRANSCRIPT}"))


def _lines(transcripts: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    for transcript in transcripts:
        chapter = transcript.name.removesuffix(TRANSCRIPT)
        for place, line in _text.lines(transcript, LAYOUT):
            utterance, _, text = line.partition(" ")
            number = utterance.removeprefix(f"{chapter}-")
            if number == utterance or not number.isdigit() or not text.strip():
                raise InputDataError(f"{place}: {line[:80]!r} is not an utterance of chapter {chapter}", fix=LAYOUT)
            paths = (transcript.parent / f"{utterance}{suffix}" for suffix in (".wav", ".flac"))
            found = next((path for path in paths if path.exists()), None)
            if found is None:
                raise InputDataError(f"{place}: {utterance}.flac is not there, nor .wav", fix=LAYOUT)
            yield found, text.strip()
