"""Networks of libraries: counted without their weights, and random ones that answer each request otherwise."""

import contextlib
import functools
import io
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from servemark.errors import OptionError
from servemark.hub.blocks.description import Description
from servemark.hub.blocks.ports import Port, Shapes, sized
from servemark.hub.blocks.requests import requests
from servemark.models.blocks.weights import calibrate, centre, drawn, seeded
from servemark.workload import Module, Sample
from servemark.workload.tensor import NUMPY_DTYPES

if TYPE_CHECKING:
    import torch

Named = Callable[[Any], Mapping[str, Any]]
"""Takes a network's answer apart, into tensors by their names."""
CALIBRATION_SAMPLES = 8
BRANCH_SCALE = 0.1
"""Least factor of a residual branch. LayerScale begins at 1e-6 to 1e-4 (CaiT: Touvron et al. 2021, arXiv:2103.17239).
A request would then leave in the answer little more than rounding, which spreading the answers makes large."""
MAX_BATCH = 64
DOWNLOAD_TIMEOUT_S, CONNECT_TIMEOUT_S = 10.0, 3.0
DATATYPES = {"torch.float32": "FP32", "torch.int64": "INT64", "torch.int32": "INT32", "torch.bool": "BOOL"}

_OF_SIZES = re.compile(r"\b(shapes?|sizes?|dimensions?|height|width|length|channels)\b", re.IGNORECASE)
"""Words of an error about an input's sizes."""


class Counted(NamedTuple):
    """A network's answer to one request, and its cost."""

    outputs: tuple[Port, ...]
    parameters: int
    flops: int


def counted(network: Callable[[], Module], inputs: Sequence[Port], named: Named) -> Counted:
    """Count a network and its answer to one sample, which `named` takes apart.

    It runs on the meta device, without weights and values, and on the CPU where the network looks at values. Raises
    OptionError where the network does not take the inputs.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        # Transformers looks at the values of a mask, but not where tensors are fake.
        found = _counted(network, inputs, named, torch.device("meta"), FakeTensorMode(allow_non_fake_inputs=True))
    except Exception:  # a network that looks at values: whatever the library raises
        try:
            found = _counted(network, inputs, named, torch.device("cpu"), contextlib.nullcontext())
        except Exception as error:  # likewise
            sizes = ", ".join(f"{port.name}{list(port.shape)}" for port in inputs)
            raise OptionError(
                f"the network does not take {sizes}: {quoted(error)}",
                fix="`servemark import LIBRARY/NAME --name MINE --shape INPUT:SIZES` gives it other sizes"
                if _OF_SIZES.search(str(error))
                else "export it to ONNX and `servemark import` it",
            ) from error
    return found


def _counted(
    network: Callable[[], Module],
    inputs: Sequence[Port],
    named: Named,
    device: "torch.device",
    mode: contextlib.AbstractContextManager[Any],
) -> Counted:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    if device.type == "meta":  # has no values, and those of a large picture take seconds to draw
        sample: Sample = {port.name: np.empty(port.shape, NUMPY_DTYPES[port.datatype]) for port in inputs}
    else:
        sample = next(requests(tuple(inputs), np.random.default_rng(0)))
    with device, torch.no_grad():
        # The counter follows gradients, and fails where a parameter is handed to a module.
        model = network().eval().requires_grad_(False)
        given = [torch.from_numpy(sample[port.name])[None].to(device) for port in inputs]
        with mode, FlopCounterMode(display=False) as counter:
            batch = [each.clone() for each in given]
            answer = model(*batch)
    ports = tuple(
        Port(name=name, datatype=DATATYPES[str(each.dtype)], shape=tuple(each.shape[1:]))
        for name, each in named(answer).items()
    )
    return Counted(ports, sum(parameter.numel() for parameter in model.parameters()), int(counter.get_total_flops()))


def spread(model: Module, inputs: tuple[Port, ...], answers: int) -> None:
    """Calibrate a random network, and spread the last dense layer's answers where it has so many.

    Random deep networks answer nearly the same to every request, so that no check of answers would mean anything.
    """
    import torch
    from torch import nn

    batch = drawn(requests(inputs, np.random.default_rng(0)), CALIBRATION_SAMPLES)
    with torch.no_grad():
        for parameter in model.parameters():
            first = float(parameter.flatten()[0])
            if 0 < first < BRANCH_SCALE and bool((parameter == first).all()):
                parameter.fill_(BRANCH_SCALE)
        calibrate(model, *batch)
        heads = [module for module in model.modules() if isinstance(module, nn.Linear)]
        answer = model(*batch)
        if heads and heads[-1].out_features == answers and heads[-1].bias is not None and answer.ndim == 2:
            centre(heads[-1], answer)


def reason(error: Exception) -> str:
    """Say in one line why weights could not be had."""
    return f"they could not be had ({quoted(error)})"


def quoted(error: Exception) -> str:
    """Quote a library's error in one line."""
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0][:120] if words else 'no words'}"


@contextlib.contextmanager
def downloading() -> Iterator[None]:
    """Let a library download, which fails after some seconds where nothing answers; what it prints goes nowhere."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(DOWNLOAD_TIMEOUT_S)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        socket.setdefaulttimeout(before)


@functools.cache
def _answers(host: str, port: int) -> bool:
    """Try once in a process whether something answers: a suite asks for many models, and each would wait."""
    try:
        with socket.create_connection((host, port), CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def hugging_face() -> Iterator[None]:
    """Let a library download from Hugging Face's hub; where that does not answer, only its cache is asked, at once.

    The hub's own client would try each file six times, for half a minute.
    """
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    place = urlsplit(constants.ENDPOINT)
    constants.HF_HUB_OFFLINE = before or not _answers(place.hostname or "", place.port or 443)
    try:
        with downloading():
            yield
    finally:
        constants.HF_HUB_OFFLINE = before


def require_name(model: str) -> None:
    """Refuse a name that is a folder here, which Transformers would take for the hub's model. Raises OptionError."""
    if not Path(model).is_absolute() and Path(model).is_dir():
        raise OptionError(
            f"{model} is a folder here, and the model of that name is not looked for",
            fix=f"run it in another folder; or `servemark import ./{model}` takes this one",
        )


def file_of(model: str, name: str) -> Path:
    """Find a file of a model's folder, or of its name in the hub's cache or on the hub.

    Raises FileNotFoundError where a folder lacks it, else whatever the hub or the network raises.
    """
    if Path(model).is_absolute():
        if not (Path(model) / name).is_file():
            raise FileNotFoundError(f"{model} has no {name}")
        return Path(model) / name
    from huggingface_hub import hf_hub_download

    with hugging_face():
        return Path(hf_hub_download(model, name))


def describe_classifier(
    name: str,
    library: str,
    version: str,
    model: str,
    *,
    shapes: Shapes,
    size: Sequence[int],
    mean: Sequence[float],
    std: Sequence[float],
    classes: int,
    make: Callable[[], Module],
    random: str | None,
    preparation: Mapping[str, Any] = {},
) -> Description:
    """Describe a classifier: a picture of this size [3, height, width] in, or of `shapes`; a score for each class out.

    `make` makes it without trained weights; `random` is the reason why it has none. `preparation` says how the library
    prepares a picture, where that is not known by the model's name.
    """
    whole = Port(name="image", datatype="FP32", shape=tuple(size), holds="picture", mean=tuple(mean), std=tuple(std))
    (picture,) = sized([whole], shapes)
    found = counted(make, (picture,), lambda logits: {"logits": logits})
    return Description(
        name=name,
        library=library,
        version=version,
        model=model,
        task="image classification",
        inputs=(picture,),
        outputs=found.outputs,
        parameters=found.parameters,
        flops=found.flops,
        max_batch=MAX_BATCH,
        random=random,
        facts={"classes": classes, "preparation": preparation},
    )


def build_classifier(description: Description, make: Callable[[bool], Module]) -> Module:
    """Make the network in eval mode. `make` takes True for its trained weights; random ones are seeded and spread."""
    trained = description.random is None
    with contextlib.nullcontext() if trained else seeded(description.name):
        network = make(trained)
        if not trained:
            spread(network, description.inputs, description.facts["classes"])
    return network.eval()
