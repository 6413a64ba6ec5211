"""KiTS19's scans: cut as the reference cuts them, joined to a volume again, scored by organ; and what is wrong."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import numpy.typing as npt
import pytest
from scipy.signal.windows import gaussian

from servemark.datasets import kits19
from servemark.errors import InputDataError
from servemark.quality.metrics import metric_named
from tests.support.workload_data import labelled, read_requests

SIDES = (128, 128, 192)
"""Of a volume with two windows."""


def save(path: Path, voxels: npt.NDArray[Any], spacing: tuple[float, ...] = kits19.SPACING) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image: Any = nibabel.Nifti1Image
    image(voxels, np.diag([*spacing[:3], 1.0])).to_filename(path)


def patient(root: Path, voxels: npt.NDArray[Any], labels: npt.NDArray[Any], spacing: Any = kits19.SPACING) -> Path:
    save(root / "case_00003" / "imaging.nii.gz", voxels.astype(np.float32), spacing)
    save(root / "case_00003" / "segmentation.nii.gz", labels.astype(np.uint8), spacing)
    return root / "case_00003"


def organs(sides: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """A kidney over half of the volume, and a tumour in its middle."""
    labels = np.zeros(sides, np.uint8)
    labels[: sides[0] // 2] = 1
    labels[sides[0] // 4 : sides[0] // 3, :, sides[2] // 2 :] = 2
    return labels


def answers(labels: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.float32]]:
    """Answers to the windows of a network that is right everywhere."""
    windows = kits19.windows(labels.astype(np.float32))
    return [np.stack([window == organ for organ in range(3)]).astype(np.float32) for window in windows]


def test_values_are_clipped_and_scaled_and_short_sides_repeat_their_edges(tmp_path: Path) -> None:
    voxels = np.full((100, 130, 170), -1000.0)
    voxels[50:] = 1000
    scan = kits19.read(patient(tmp_path, voxels, organs(voxels.shape)))
    # 100 is padded to 128; 130 is 2 above 128 and cut; 170 is 22 below 192 and padded
    assert scan.volume.shape == scan.labels.shape == (128, 128, 192) == kits19.shape(tmp_path / "case_00003")
    assert scan.volume.dtype == np.float32
    lowest, highest = (-79 - 101) / 76.9, (304 - 101) / 76.9
    np.testing.assert_allclose(scan.volume[0, 0, 11], lowest, rtol=1e-6)
    np.testing.assert_allclose(scan.volume[-1, 0, 11], highest, rtol=1e-6)
    np.testing.assert_allclose(scan.volume[0, 0, :11], kits19.PADDING, rtol=1e-6)
    assert scan.labels[0, 0, 11] == 1
    assert not scan.labels[:, :, :11].any()


def test_scans_of_other_spacings_are_brought_to_the_reference_s(tmp_path: Path) -> None:
    voxels = np.zeros((64, 154, 128))
    voxels[32:] = 200
    case = patient(tmp_path, voxels, (voxels > 0) * 2, (3.2, 1.2, 1.2))
    scan = kits19.read(case)
    assert scan.volume.shape == kits19.shape(case) == (128, 128, 128)  # 64 slices of 3.2 mm are 128 of 1.6
    measured = scan.volume[:, 64, 64] * 76.9 + 101
    np.testing.assert_allclose(measured[[0, 60, 67, 127]], [0, 0, 200, 200], atol=1e-3)
    assert set(np.unique(scan.labels)) == {0, 2}  # the nearest class: none is made up between two


@pytest.mark.parametrize(("size", "side"), [(1, 128), (128, 128), (159, 128), (160, 192), (191, 192), (223, 192)])
def test_a_side_becomes_the_nearest_multiple(size: int, side: int) -> None:
    assert kits19._cut(size) == side
    assert kits19._fitted(np.zeros((size, 128, 128), np.float32), 0).shape[0] == side


def test_windows_overlap_by_half_and_are_joined_by_the_reference_s_weights() -> None:
    assert kits19.starts((128, 192, 256)) == [(0, j, k) for j in (0, 64) for k in (0, 64, 128)]
    rng = np.random.default_rng(0)
    found = [rng.standard_normal((3, 128, 128, 128), dtype=np.float32) for _ in range(2)]
    bell = gaussian(128, 16)
    weights = np.cbrt(np.einsum("i,j,k->ijk", bell, bell, bell))  # inference_utils.py: gaussian_kernel
    sums = np.zeros((3, *SIDES))
    sums[..., :128] += found[0] * weights
    sums[..., 64:] += found[1] * weights
    best, second = np.sort(sums, axis=0)[:-3:-1]
    clear = best - second > 1e-3 * np.abs(sums).max(axis=0)
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(kits19.joined(found, SIDES)[clear], sums.argmax(axis=0)[clear])


def test_right_answers_score_1_and_a_missed_tumour_lowers_its_own_score(tmp_path: Path) -> None:
    labels = organs(SIDES)
    patient(tmp_path, np.zeros(SIDES), labels)
    data, metric = labelled("unet3d", tmp_path), metric_named("mean Dice")
    assert (data.size, data.requests_of(0), data.first_request(1), data.place_of(1)) == (1, 2, 2, (0, 1))
    example = data.example(0)
    assert [request["image"].shape for request in example.requests] == [(1, 128, 128, 128)] * 2
    assert metric.values([metric.row(answers(labels), example.label)]) == pytest.approx((1, 1, 1))
    missed = np.where(labels == 2, 0, labels).astype(np.uint8)
    assert metric.values([metric.row(answers(missed), example.label)]) == pytest.approx((0.5, 1, 0), abs=1e-6)
    assert metric.values([metric.wrong(example.label) or []]) == (0, 0, 0)
    with pytest.raises(ValueError, match="1 windows were answered"):
        metric.row(answers(labels)[:1], example.label)
    assert data.example(0) is example  # a scan is not read again for each of its windows
    assert len(read_requests("unet3d", tmp_path)) == 2


def without(name: str) -> Callable[[Path], None]:
    return lambda case: (case / name).unlink()


def cut(case: Path) -> None:
    content = (case / "imaging.nii.gz").read_bytes()
    (case / "imaging.nii.gz").write_bytes(content[: len(content) // 2])


def scrambled(case: Path) -> None:
    save(case / "imaging.nii.gz", np.arange(16**3, dtype=np.float32).reshape(16, 16, 16))
    content = bytearray((case / "imaging.nii.gz").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 100] = b"\xff" * 100
    (case / "imaging.nii.gz").write_bytes(content)


def of_an_unknown_type(case: Path) -> None:
    content = bytearray(gzip.decompress((case / "imaging.nii.gz").read_bytes()))
    content[70:72] = b"\x11\x27"
    (case / "imaging.nii.gz").write_bytes(gzip.compress(content))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (without("imaging.nii.gz"), "imaging.nii.gz is not there"),
        (without("segmentation.nii.gz"), "segmentation.nii.gz is not there"),
        (lambda case: (case / "imaging.nii.gz").write_bytes(b"no scan"), "imaging.nii.gz cannot be read"),
        (cut, "cannot be read"),
        (scrambled, "cannot be read"),
        (of_an_unknown_type, "imaging.nii.gz cannot be read"),
        (lambda case: save(case / "imaging.nii.gz", np.zeros((1, 4, 4)), (0.5, 1, 1)), "mm are less than one of 1.6 x"),
        (lambda case: save(case / "imaging.nii.gz", np.zeros((4, 4), np.float32)), "not a volume"),
        (lambda case: save(case / "segmentation.nii.gz", np.zeros((4, 4, 4), np.uint8)), "its segmentation"),
    ],
)
def test_what_is_wrong_names_the_patient(tmp_path: Path, damage: Callable[[Path], None], said: str) -> None:
    rng = np.random.default_rng(0)
    case = patient(tmp_path, rng.standard_normal((16, 16, 16)), np.zeros((16, 16, 16)))
    damage(case)
    with pytest.raises(InputDataError, match=f"case_00003.*{said}"):
        kits19.read(case)


def test_patients_that_are_not_there_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputDataError, match="none of the 42 patients case_00000 to case_00207"):
        kits19.patients(tmp_path)
    (tmp_path / "case_00003").mkdir()
    (tmp_path / "case_00001").mkdir()  # was for training
    assert kits19.patients(tmp_path) == [tmp_path / "case_00003"]
    assert "has 1 of the reference's 42 patients" in capsys.readouterr().err
