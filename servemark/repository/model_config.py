"""A model's Triton configuration with some settings changed, for one run or for good, and the versions of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from servemark.documents.commands.prepare import Serving
from servemark.documents.server import Server
from servemark.errors import MAX_QUOTED, ArtifactError, OptionError, ServerError

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig

THREADS = "intra_op_thread_count"
"""The parameter of Triton's own onnxruntime backend; every engine here understands it."""
ON_HOST = "FORCE_CPU_ONLY_INPUT_TENSORS"
"""Triton's Python backend copies input tensors to the host, unless this parameter says no."""
_DEVICES = re.compile(r"cpu|cuda:\d{1,9}(,\d{1,9})*")
MAX_INSTANCES = (1 << 31) - 1
"""The most that a config.pbtxt can hold."""


@dataclass(frozen=True)
class Settings:
    """Settable parts of a model's configuration; None keeps the value in its config.pbtxt."""

    device: str | None = None
    """`cpu`, `cuda:N`, or `cuda:N,M` for instances on several GPUs."""
    max_batch: int | None = None
    queue_delay_us: int | None = None
    """Maximum time for which a request waits for others to join its batch."""
    batching: bool | None = None
    """Join waiting requests into batches, or not."""
    instances: int | None = None
    """Instances on each device."""
    threads: int | None = None
    """Threads of one run; 0 leaves the number to the engine."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The engine's own parameters, such as compile=true."""

    @classmethod
    def of(cls, asked: Server | Serving) -> Self:
        """Read --device, --engine-option KEY[=VALUE] and --instances. Raises OptionError."""
        device = asked.device
        if device and not _DEVICES.fullmatch(device):
            raise OptionError(f"--device {device!r} is unknown", fix="use cpu or cuda:N, such as --device cuda:0")
        if asked.instances is not None and asked.instances > MAX_INSTANCES:
            raise OptionError(
                f"--instances {asked.instances} is more than a config.pbtxt can hold", fix=f"at most {MAX_INSTANCES}"
            )
        pairs = {key: value or "true" for key, _, value in (each.partition("=") for each in asked.engine_options)}
        if not all(pairs):
            raise OptionError("--engine-option has no name", fix="write it like --engine-option compile=true")
        return cls(device=device or None, options=pairs, instances=asked.instances)

    def __bool__(self) -> bool:
        return self != Settings()

    def apply(self, config: str) -> str:
        """Return the configuration with these settings. Raises ArtifactError where it is not a configuration."""
        from google.protobuf import text_format

        model = parse(config)
        if self.max_batch is not None:
            model.max_batch_size = self.max_batch
            if model.HasField("dynamic_batching"):
                # Triton refuses a model that prefers a batch larger than its limit.
                preferred = model.dynamic_batching.preferred_batch_size
                preferred[:] = [size for size in preferred if size <= self.max_batch]
        if self.batching is False:
            model.ClearField("dynamic_batching")
        elif self.batching:
            model.dynamic_batching.SetInParent()
        if self.queue_delay_us is not None:
            model.dynamic_batching.max_queue_delay_microseconds = self.queue_delay_us
        if self.threads is not None:
            model.parameters[THREADS].string_value = str(self.threads)
        for key, value in self.options.items():
            model.parameters[key].string_value = value
        self._place(model)
        text: str = text_format.MessageToString(model)
        return text

    def in_json(self, config: str) -> dict[str, Any]:
        """Return the configuration with these settings as Triton gives it to a backend. Raises ArtifactError."""
        from google.protobuf.json_format import MessageToDict

        return dict(MessageToDict(parse(self.apply(config)), preserving_proto_field_name=True))

    def _place(self, model: "ModelConfig") -> None:
        for group in model.instance_group or [model.instance_group.add()]:
            if self.instances is not None:
                group.count = self.instances
            if self.device is not None:
                kind, _, numbers = self.device.partition(":")
                group.kind = group.KIND_CPU if kind == "cpu" else group.KIND_GPU
                group.gpus[:] = [int(number) for number in numbers.split(",") if number]
        if self.device is not None:
            model.parameters[ON_HOST].string_value = "no"
            if self.device == "cpu":
                del model.parameters[ON_HOST]


def named(config: str, name: str) -> str:
    """Return the configuration as that of a model of another name. Raises ArtifactError."""
    from google.protobuf import text_format

    model = parse(config)
    model.name = name
    return str(text_format.MessageToString(model))


def parse(config: str) -> "ModelConfig":
    """Read the text of a config.pbtxt. Raises ArtifactError, ServerError where tritonclient is missing."""
    try:
        from google.protobuf import text_format
        from tritonclient.grpc.model_config_pb2 import ModelConfig
    except ImportError as error:
        reason = f"model configurations need tritonclient: {error}"
        raise ServerError(reason, fix="pip install -e '.[triton]'") from error
    try:
        return text_format.Parse(config, ModelConfig())
    except text_format.ParseError as error:
        reason = f"the config.pbtxt is malformed: {str(error)[:MAX_QUOTED]}"
        fix = "correct it, or write it anew: servemark export WORKLOAD --engine ENGINE --force"
        raise ArtifactError(reason, fix=fix) from error


_VERSION = re.compile(r"0|[1-9][0-9]{0,18}")
"""A number without leading zeros: Triton skips every other folder."""


def version_folders(entry: Path) -> list[Path]:
    """List the folders of an entry that Triton takes for versions, the newest first."""
    found = [path for path in entry.iterdir() if _VERSION.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name), reverse=True)


def served_versions(entry: Path, config: "ModelConfig") -> Sequence[Path]:
    """List the versions that Triton serves by the entry's version_policy, the newest first; by default that one alone.

    A request without a version reaches the first. Source: Triton's user guide, "Model Repository", Model Versions, and
    "Model Configuration", Version Policy; folders are looked up as in `VersionsToLoad` of Triton's core.
    """
    folders, policy = version_folders(entry), config.version_policy
    kind = policy.WhichOneof("policy_choice")
    if kind == "all":
        return folders
    if kind == "specific":
        return [path for path in folders if int(path.name) in policy.specific.versions]
    return folders[: policy.latest.num_versions if kind == "latest" else 1]


def same_version(version: str) -> set[str]:
    """Return the ways in which a server may name a version: Triton reads 01 and names it 1."""
    return {version, str(int(version))} if re.fullmatch("[0-9]{1,18}", version) else {version}
