"""The ImageNet networks: torchvision's in everything but the weights, which tell pictures apart."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from servemark import workload
from tests.support.workload_data import batch_of

ARGUMENTS = {"googlenet": {"aux_logits": False, "transform_input": False, "init_weights": False}}
NAMES = ("googlenet", "vgg16", "resnet50", "resnet152", "densenet121")
NETWORKS = [pytest.param(name, marks=[pytest.mark.slow] if name in {"resnet152", "vgg16"} else []) for name in NAMES]


@pytest.fixture(scope="module", params=NETWORKS)
def network(request: pytest.FixtureRequest) -> tuple[str, nn.Module]:
    return request.param, workload.get(request.param).build()


def test_parameters_and_flops_are_exact_and_the_model_is_in_eval_mode(network: tuple[str, nn.Module]) -> None:
    name, model = network
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(batch_of(workload.get(name), 1)[0])
    assert counter.get_total_flops() == workload.get(name).flops
    assert sum(p.numel() for p in model.parameters()) == workload.get(name).parameters
    assert not any(module.training for module in model.modules())


def test_is_torchvisions_with_other_weights(network: tuple[str, nn.Module]) -> None:
    import torchvision

    name, model = network
    with torch.device("meta"):
        reference = torchvision.models.get_model(name, weights=None, **ARGUMENTS.get(name, {})).eval()
    reference.load_state_dict(model.state_dict(), assign=True)
    image = batch_of(workload.get(name), 1, seed=3)[0]
    with torch.no_grad():
        torch.testing.assert_close(model(image), reference(image))


def test_tells_pictures_apart(network: tuple[str, nn.Module]) -> None:
    """Random deep networks give one class to all pictures, which would make every top-1 comparison empty."""
    name, model = network
    with torch.no_grad():
        logits = model(batch_of(workload.get(name), 8, seed=3)[0])
    assert len(set(logits.argmax(dim=1).tolist())) >= 6
    assert 0.5 < logits.std(dim=0).mean() < 2
