"""Every workload of the registry: its interface, its size, its requests and its numerics; then each model's own."""

import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from servemark.errors import OptionError
from servemark.models import din
from servemark.models.blocks import classification
from servemark.models.synthesis import images
from servemark.models.synthesis.images import ImagePool, image_pool
from servemark.models.synthesis.popularity import Lengths, Popularity
from servemark.workload import Workload, get, names, workloads
from tests.servemark.models.blocks.test_classification import NAMES as CLASSIFIERS
from tests.support.workload_data import answer, batch_of, firm_batch
from tests.support.zoo import no_tiny

LARGE, LONG = 30_000_000, 30e9
"""Workloads of more parameters, or of more FLOPs, are built in the slow suite only."""

FULL = [
    pytest.param(
        workload,
        id=name,
        marks=pytest.mark.slow if (workload.parameters or 0) > LARGE or (workload.flops or 0) > LONG else [],
    )
    for name, workload in workloads().items()
]
TINY = [pytest.param(workload.tiny, id=f"{name}_tiny", marks=no_tiny(name)) for name, workload in workloads().items()]
every_workload = pytest.mark.parametrize("workload", [*TINY, *FULL])
every_tiny = pytest.mark.parametrize("workload", TINY)

WITHOUT_TORCH = """
import sys
from itertools import islice

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torchvision", "onnx", "onnxruntime"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import numpy as np
from servemark.models.synthesis import images
from servemark.workload import names, workloads

images.POOL_SIZE = 1
for workload in workloads().values():
    for size in filter(None, (workload, workload.tiny)):
        next(size.samples(np.random.default_rng(0)))
print(len(names()))
"""


def test_zoo_is_importable_and_samples_without_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(names()) >= 4


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean ranking"):
        get("rankin")
    assert get("ranking_tiny") is workloads()["ranking"].tiny


@pytest.fixture(scope="module", params=[*TINY, *(each for each in FULL if each.id not in CLASSIFIERS)])
def built(request: pytest.FixtureRequest) -> tuple[Workload, nn.Module]:
    """A workload and its model, which is built once for all tests that take it; test_classification.py has the rest."""
    workload: Workload = request.param
    with pytest.MonkeyPatch.context() as patch:
        if not workload.name.endswith("_tiny"):  # its sizes are tested, not its answers
            patch.setattr(classification, "CALIBRATION_SAMPLES", 2)
        return workload, workload.build()


def test_parameters_are_exact_and_the_model_is_in_eval_mode(built: tuple[Workload, nn.Module]) -> None:
    workload, model = built
    assert sum(p.numel() for p in model.parameters()) == workload.parameters
    assert not any(module.training for module in model.modules())


def test_flops_are_those_that_pytorch_counts(built: tuple[Workload, nn.Module]) -> None:
    workload, model = built
    if any(isinstance(module, nn.RNNBase) for module in model.modules()):
        pytest.skip("PyTorch does not count its fused recurrent kernels")
    if workload.name.removesuffix("_tiny") == "aoa_reader":
        pytest.skip("PyTorch counts the input that marks the padding; test_text_models.py counts the weights")
    if hasattr(model, "step"):
        pytest.skip("its work depends on the length of the answer; test_decoding.py counts a nominal one")
    with FlopCounterMode(display=False) as counter:
        answer(model, *batch_of(workload, 1))
    assert counter.get_total_flops() == workload.flops


@every_workload
def test_a_workload_that_pads_its_requests_counts_them_with_and_without(workload: Workload) -> None:
    """An input that tells a length is of one that is padded to more."""
    padded = any(tensor.name == "length" or tensor.name.endswith(("_len", "n_frames")) for tensor in workload.inputs)
    assert not padded or workload.flops_without_padding is not None
    if workload.flops_without_padding is not None:
        assert workload.flops is not None
        assert 0 < workload.flops_without_padding < workload.flops <= (workload.flops_longest or workload.flops)


@every_tiny
def test_tiny_variant_has_the_interface_of_its_workload(workload: Workload) -> None:
    full = get(workload.name.removesuffix("_tiny"))
    assert (workload.parameters or 0) < 1_000_000
    assert (workload.flops or 0) < 100_000_000
    for own, other in ((workload.inputs, full.inputs), (workload.outputs, full.outputs)):
        assert [(t.name, t.datatype, len(t.shape)) for t in own] == [(t.name, t.datatype, len(t.shape)) for t in other]


@every_workload
def test_samples_match_the_interface_and_repeat_by_seed(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "POOL_SIZE", 8)  # a picture is drawn after all those before it in the pool
    first, again, other = (list(islice(workload.samples(np.random.default_rng(s)), 5)) for s in (7, 7, 8))
    for sample in first:
        assert {name: array.dtype for name, array in sample.items()} == {t.name: t.dtype for t in workload.inputs}
        assert all(tensor.fits(sample[tensor.name].shape) for tensor in workload.inputs)
    for one, same in zip(first, again, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], same[name])
    assert any(not np.array_equal(first[0][name], other[0][name]) for name in first[0])
    assert any(not np.array_equal(first[0][name], first[1][name]) for name in first[0])


@pytest.mark.parametrize("built", TINY, indirect=True)
def test_outputs_match_the_interface(built: tuple[Workload, nn.Module]) -> None:
    workload, model = built
    outputs = answer(model, *batch_of(workload, 2))
    for tensor, output in zip(workload.outputs, outputs, strict=True):
        array = output.numpy()
        assert (array.dtype, len(array)) == (tensor.dtype, 2)
        assert tensor.fits(array.shape[1:])
        assert np.isfinite(array).all()


@pytest.mark.parametrize("built", TINY, indirect=True)
def test_a_row_does_not_depend_on_its_batch(built: tuple[Workload, nn.Module]) -> None:
    workload, model = built
    inputs = firm_batch(model, workload, 3)
    together = answer(model, *inputs)
    for row in range(3):
        alone = answer(model, *(tensor[row : row + 1] for tensor in inputs))
        for one, many in zip(alone, together, strict=True):
            torch.testing.assert_close(one[0], many[row], atol=1e-4, rtol=0)


@pytest.mark.parametrize("built", TINY, indirect=True)
def test_build_is_seeded_by_name_and_leaves_the_random_state_alone(built: tuple[Workload, nn.Module]) -> None:
    workload, model = built
    torch.manual_seed(1)
    again = workload.build().state_dict()
    after_build = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after_build, torch.rand(1))
    assert all(torch.equal(tensor, again[name]) for name, tensor in model.state_dict().items())


def test_ranking_masks_the_history_and_the_padding_and_sorts_by_score() -> None:
    workload = get("ranking_tiny")
    model, (user, seq) = workload.build(), batch_of(workload, 64)
    items, scores = answer(model, user, seq)
    assert (items > 0).all()
    assert not (items[:, :, None] == seq[:, None, :]).any()
    assert (scores.diff(dim=1) <= 0).all()
    unmasked = answer(model, user, torch.full_like(seq, 1))[0]
    assert (items != unmasked).any()


def test_ranking_scores_are_the_catalogue_product() -> None:
    workload = get("ranking_tiny")
    model = workload.build()
    queries: list[torch.Tensor] = []
    model.get_submodule("catalogue").register_forward_pre_hook(lambda _, inputs: queries.append(inputs[0]))
    items, scores = answer(model, *batch_of(workload, 8))
    rows = model.get_parameter("catalogue.weight")[items.long()]
    expected = (rows @ queries[0][:, :, None]).squeeze(2) + model.get_parameter("catalogue.bias")[items.long()]
    torch.testing.assert_close(scores, expected.detach(), atol=1e-5, rtol=0)


def test_ncf_scores_each_film_as_the_pair_form_would() -> None:
    workload = get("ncf_tiny")
    model, (user, items) = workload.build(), batch_of(workload, 3)
    (scores,) = answer(model, user, items)
    for i in range(items.shape[1]):
        (pair,) = answer(model, user, items[:, i : i + 1])
        torch.testing.assert_close(scores[:, i : i + 1], pair, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["ncf", "ncf_ml100k", "ncf_tiny"])
def test_ncf_lists_hold_no_film_twice(name: str) -> None:
    _, items = batch_of(get(name), 50)
    assert all(len(set(row)) == len(row) for row in items.tolist())


def test_din_ignores_what_lies_beyond_the_history_and_only_that() -> None:
    workload = get("din_tiny")
    model, (item, hist, hist_len) = workload.build(), batch_of(workload, 32)
    (ctr,) = answer(model, item, hist, hist_len)
    beyond = torch.arange(hist.shape[1]) >= hist_len
    assert beyond.any()
    assert torch.equal(answer(model, item, hist.masked_fill(beyond, 123), hist_len)[0], ctr)
    changed = hist.clone()
    changed[:, 0] = (changed[:, 0] + 1) % 500
    assert (answer(model, item, changed, hist_len)[0] != ctr).all()


def test_film_popularity_follows_movielens() -> None:
    """Shares of the ratings that MovieLens-100K's top 1, 10 and 50 % of films have (counted in u.data)."""
    rank = np.arange(1, 1683)
    ranks = Popularity(rank**-0.15 * np.exp(-rank / 390)).draw_ranks(np.random.default_rng(0), 100_000)
    for top, share in ((17, 0.076), (168, 0.427), (841, 0.927)):
        assert (ranks < top).mean() == pytest.approx(share, abs=0.02)


def test_din_asks_for_products_that_were_never_reviewed_and_for_clicked_ones() -> None:
    _, hist, hist_len = batch_of(get("din"), 2000)
    assert hist_len.min() == 4
    assert hist_len.float().mean() == pytest.approx(8, abs=0.4)
    _, count = np.unique(hist[hist > 0], return_counts=True)
    assert count.max() / count.sum() < 0.006


def test_din_draws_a_product_until_it_was_never_reviewed() -> None:
    sizes, rng = din.Sizes(items=6), np.random.default_rng(0)
    assert {din._never_reviewed(rng, sizes, [0, 1, 3]) for _ in range(100)} == {2, 4, 5}


def test_zipf_ids_are_scattered_and_leave_the_special_ids_out() -> None:
    popularity = Popularity.zipf(1000, s=1.0, q=2.7, first_id=3)
    ids = popularity.draw(np.random.default_rng(0), 50_000)
    assert (ids.min(), ids.max()) == (3, 1002)
    top, count = np.unique(ids, return_counts=True)
    assert count.max() / len(ids) == pytest.approx((1 / 3.7) / sum(1 / (r + 2.7) for r in range(1, 1001)), rel=0.1)
    assert sorted(popularity.ids(np.arange(1000)).tolist()) == list(range(3, 1003))
    assert top[count.argsort()[-5:]].tolist() != list(range(3, 8))


def test_lengths_have_the_mean_asked_for_after_clipping() -> None:
    lengths, rng = Lengths(8, 0.75, 1, 100), np.random.default_rng(0)
    drawn = [lengths.draw(rng) for _ in range(20_000)]
    assert np.mean(drawn) == pytest.approx(8, abs=0.15)
    assert min(drawn) >= 1
    assert max(drawn) <= 100
    with pytest.raises(ValueError, match="does not lie between"):
        Lengths(200, 0.75, 1, 100)


def test_a_picture_does_not_depend_on_those_drawn_before_it() -> None:
    pool = ImagePool(16, 24)
    drawn = {index: pool[index] for index in (5, 2, 63, 5)}
    in_order = list(ImagePool(16, 24))
    assert len(in_order) == len(pool)
    assert all(np.array_equal(picture, in_order[index]) for index, picture in drawn.items())
    assert pool[5] is drawn[5]


def test_pictures_have_natural_statistics() -> None:
    pool = np.stack(image_pool(64, 64))
    assert pool.min() >= 0
    assert pool.max() <= 1
    np.testing.assert_allclose(pool.mean(axis=(0, 2, 3)), [0.485, 0.456, 0.406], atol=0.02)
    np.testing.assert_allclose(pool.std(axis=(0, 2, 3)), [0.229, 0.224, 0.225], atol=0.03)
    red, green = pool[:, 0].reshape(64, -1), pool[:, 1].reshape(64, -1)
    assert np.mean([np.corrcoef(r, g)[0, 1] for r, g in zip(red, green, strict=True)]) == pytest.approx(0.9, abs=0.05)
    spectrum = (np.abs(np.fft.fft2(pool)) ** 2).mean(axis=(0, 1))
    slope = np.polyfit(np.log(np.arange(2, 24)), np.log(spectrum[0, 2:24]), 1)[0]
    assert slope == pytest.approx(-2, abs=0.4)


@pytest.mark.parametrize("name", workloads())
def test_a_workload_has_labels_or_says_why_not(name: str) -> None:
    workload = get(name)
    if workload.quality is not None:
        assert (workload.labelled is None) == bool(workload.quality.unmeasured)
