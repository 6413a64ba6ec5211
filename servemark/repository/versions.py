"""Version folders of a repository entry, and those of them that Triton serves.

Source: Triton's user guide, "Model Repository", Model Versions, and "Model Configuration", Version Policy; folders
are looked up as in `VersionsToLoad` of Triton's core.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig

_VERSION = re.compile(r"0|[1-9][0-9]{0,18}")
"""A number without leading zeros: Triton skips every other folder."""


def version_folders(entry: Path) -> list[Path]:
    """List the folders of an entry that Triton takes for versions, the newest first."""
    found = [path for path in entry.iterdir() if _VERSION.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name), reverse=True)


def served_versions(entry: Path, config: "ModelConfig") -> Sequence[Path]:
    """List the versions that Triton serves by the entry's version_policy, the newest first; by default that one alone.

    A request without a version reaches the first.
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
