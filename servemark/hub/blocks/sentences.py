"""Networks of Transformers as they are served, and how sentence-transformers makes one vector of a text's.

Reimers and Gurevych 2019, "Sentence-BERT" (EMNLP), section 3.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from servemark.errors import OptionError
from servemark.hub.blocks.description import MODULES

POOLING = "1_Pooling/config.json"
_POOLING_MODE = "pooling_mode_"
_OURS = {"Transformer", "Pooling", "Normalize"}


class Embedding(NamedTuple):
    """The pooling of a text's vectors, and whether the result is scaled to the length 1."""

    pooling: str
    normalised: bool


def embedding(model: str, read: Callable[[str], Any]) -> Embedding | None:
    """Return how a model embeds sentences, None for one that does not.

    `read` gives a JSON file of the model's, None for one that it lacks. Raises OptionError for a module or a pooling
    that is not served.
    """
    modules, pooling = read(MODULES), read(POOLING)
    if modules is None and pooling is None:
        return None
    kinds = [str(each["type"]).rpartition(".")[2] for each in modules or ()]
    if others := sorted({*kinds} - _OURS):
        raise OptionError(
            f"{model}: {MODULES} has a module {', '.join(others)}, which is not served",
            fix=f"a model of {', '.join(sorted(_OURS))}; or export it to ONNX and `servemark import` it",
        )
    if modules is not None and "Pooling" not in kinds:
        return None
    modes = _modes(pooling or {})
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise OptionError(
            f"{model}: {POOLING} asks for the pooling {' and '.join(modes) or 'of none'}, which is not served",
            fix=f"one of {', '.join(POOLINGS)}; or export it to ONNX and `servemark import` it",
        )
    return Embedding(modes[0], "Normalize" in kinds)


def _modes(pooling: dict[str, Any]) -> list[str]:
    """List the poolings that a configuration asks for, whose results would be put side by side; the default is mean."""
    if named := pooling.get("pooling_mode"):
        return [named] if isinstance(named, str) else list(named)
    flags = {key.removeprefix(_POOLING_MODE).removesuffix("_tokens"): on for key, on in pooling.items()
             if key.startswith(_POOLING_MODE)}  # fmt: skip
    names = {"cls_token": "cls", "max": "max", "mean": "mean", "mean_sqrt_len": "mean_sqrt_len_tokens"}
    return [names.get(key, key) for key, on in flags.items() if on] if flags else ["mean"]


POOLINGS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "mean": lambda vectors, mask: (vectors * mask).sum(1) / mask.sum(1).clamp(min=1),
    "cls": lambda vectors, _: vectors[:, 0],
    "max": lambda vectors, mask: (vectors * mask - (1 - mask) * 1e9).amax(1),
    "mean_sqrt_len_tokens": lambda vectors, mask: (vectors * mask).sum(1) / mask.sum(1).clamp(min=1).sqrt(),
}
"""By sentence-transformers' names: from vectors [texts, ids, width] and a mask [texts, ids, 1] to [texts, width]."""


def embed(how: Embedding, vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Make one vector of each text's: [texts, ids, width] and a mask [texts, ids] give [texts, width]."""
    pooled = POOLINGS[how.pooling](vectors, mask[:, :, None].to(vectors.dtype))
    return nn.functional.normalize(pooled, dim=1) if how.normalised else pooled


class Served(nn.Module):
    """A network as it is served: tensors in the order of its ports; one vector of a text where it embeds sentences.

    Without names of outputs the library's own answer is given.
    """

    def __init__(
        self, network: nn.Module, inputs: tuple[str, ...], outputs: tuple[str, ...], how: Embedding | None
    ) -> None:
        super().__init__()
        self.network, self._inputs, self._outputs, self._how = network, inputs, outputs, how

    def forward(
        self, first: torch.Tensor, second: torch.Tensor | None = None, third: torch.Tensor | None = None
    ) -> Any:
        """Answer a batch; torch.export wants each input to have a name."""
        given = [each for each in (first, second, third) if each is not None]
        taken = dict(zip(self._inputs, given, strict=True))
        answer = self.network(**taken)
        if self._how:
            return embed(self._how, answer.last_hidden_state, taken["attention_mask"])
        if not self._outputs:
            return answer
        found = tuple(getattr(answer, name) for name in self._outputs)
        return found if len(found) > 1 else found[0]
