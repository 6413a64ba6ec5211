"""Recordings: LibriSpeech's layout, folders of WAV and FLAC files, and every way they are damaged."""

import sys
import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from servemark.datasets import _audio, librispeech
from servemark.errors import InputDataError
from tests.support.workload_data import read_requests


def write_wav(
    path: Path, samples: npt.NDArray[np.int16], rate: int = 16_000, channels: int = 1, width: int = 2
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return path


RAMP = np.arange(-8_000, 8_000, dtype=np.int16)


def chapter(root: Path) -> Path:
    """Two utterances in LibriSpeech's layout; returns the transcript."""
    folder = root / "LibriSpeech" / "test-clean" / "1089" / "134686"
    for number in (0, 1):
        write_wav(folder / f"1089-134686-000{number}.wav", RAMP + number)
    transcript = folder / "1089-134686.trans.txt"
    transcript.write_text("1089-134686-0000 HE HOPED THERE WOULD BE STEW\n1089-134686-0001 STUFF IT INTO YOU\n")
    return transcript


def test_librispeech_layout_is_read_in_order(tmp_path: Path) -> None:
    chapter(tmp_path)
    write_wav(tmp_path / "LibriSpeech" / "dev-clean" / "1" / "2" / "1-2-0000.wav", RAMP)  # not test-clean
    first, second = librispeech.read(tmp_path)
    assert (first.path.name, first.text) == ("1089-134686-0000.wav", "HE HOPED THERE WOULD BE STEW")
    assert second.text == "STUFF IT INTO YOU"
    np.testing.assert_array_equal(first.waveform * 32_768, RAMP)


def test_folder_of_recordings_is_read_without_transcripts(tmp_path: Path) -> None:
    for name in ("sense_and_sensibility_01.wav", "cards/001.wav"):
        write_wav(tmp_path / name, RAMP)
    found = [(each.path.name, each.text) for each in librispeech.read(tmp_path)]
    assert found == [("001.wav", None), ("sense_and_sensibility_01.wav", None)]


@pytest.mark.parametrize("name", ["deepspeech", "deepspeech_streaming", "deepspeech2"])
def test_requests_from_recordings_are_the_front_ends_features(tmp_path: Path, name: str) -> None:
    chapter(tmp_path)
    sample, _ = read_requests(name, tmp_path)
    waveform = (RAMP / np.float32(32_768)).astype(np.float32)
    if name != "deepspeech2":
        cepstra = _audio.mfcc(waveform)
        if name == "deepspeech":  # whitened: over the windows, which hold 9 frames on each side, empty ones beyond
            windows: npt.NDArray[np.float32] = np.lib.stride_tricks.sliding_window_view(
                np.pad(cepstra, ((9, 9), (0, 0))), 19, axis=0
            )
            cepstra = ((cepstra - windows.mean()) / windows.std()).astype(np.float32)
        np.testing.assert_allclose(np.asarray(sample["mfcc"][:50], np.float32), cepstra, atol=1e-4)
        assert (sample["mfcc"].shape, sample["n_frames"].tolist()) == ((128, 26), [50])
    else:
        np.testing.assert_array_equal(sample["spect"][:, :101], _audio.log_spectrogram(waveform))
        assert (sample["spect"].shape, sample["n_frames"].tolist()) == ((161, 401), [101])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1089-134686-0002", "is not an utterance"),
        ("1089-134686-0002 ", "is not an utterance"),
        ("", "is not an utterance"),
        ("1089-134687-0002 TEXT", "is not an utterance of chapter 1089-134686"),
        ("1089-134686-x TEXT", "is not an utterance"),
        ("1089-134686-0002 TEXT", "1089-134686-0002.flac is not there"),
    ],
)
def test_damaged_transcripts_name_file_and_line(tmp_path: Path, line: str, reason: str) -> None:
    transcript = chapter(tmp_path)
    transcript.write_text(f"{transcript.read_text()}{line}\n")
    with pytest.raises(InputDataError, match=reason) as caught:
        list(librispeech.read(tmp_path))
    assert f"{transcript}:3" in caught.value.what


def test_damaged_recordings_name_the_file(tmp_path: Path) -> None:
    whole = write_wav(tmp_path / "whole.wav", RAMP).read_bytes()
    cut, empty, text = (tmp_path / f"{name}.wav" for name in ("cut", "empty", "text"))
    cut.write_bytes(whole[:-1000])
    empty.write_bytes(b"")
    text.write_bytes(b"RIFF it is not")
    bad = {
        cut: "is cut short",
        empty: "not a readable WAV",
        text: "not a readable WAV",
        write_wav(tmp_path / "slow.wav", RAMP, rate=8_000): r"1 channel\(s\) at 8000 Hz",
        write_wav(tmp_path / "stereo.wav", RAMP, channels=2): r"2 channel\(s\) at 16000 Hz",
        write_wav(tmp_path / "bytes.wav", RAMP, width=1): "8-bit samples",
        write_wav(tmp_path / "click.wav", RAMP[:320]): "320 samples",
    }
    for path, reason in bad.items():
        with pytest.raises(InputDataError, match=reason) as caught:
            _audio.load(path)
        assert path.name in caught.value.what
        assert caught.value.fix


def test_folder_without_recordings_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="neither"):
        librispeech.read(tmp_path)


def test_flac_without_its_package_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(InputDataError, match="needs the package soundfile") as caught:
        _audio.load(tmp_path / "a.flac")
    assert "pip install soundfile" in str(caught.value)


def test_official_flac_is_read(tmp_path: Path) -> None:
    import soundfile

    transcript = chapter(tmp_path)
    for wav in transcript.parent.glob("*.wav"):
        samples, rate = soundfile.read(wav, dtype="int16")
        soundfile.write(wav.with_suffix(".flac"), samples, rate)
        wav.unlink()
    first, _ = librispeech.read(tmp_path)
    assert first.path.suffix == ".flac"
    np.testing.assert_array_equal(first.waveform * 32_768, RAMP)
