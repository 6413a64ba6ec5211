"""Configuration that served a model, as a result keeps it, and the comparison of two of them."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from servemark.stats.unknown import unknown

KEY = "model_config"
DIGEST = f"{KEY}_sha256"
MAX_KIB = 32
"""Limit for a configuration that is kept: a usual one has 2 KiB, and a comparison keeps one for every run."""


def recorded(config: dict[str, Any] | None, silent: str) -> tuple[dict[str, Any] | None, str | None]:
    """Return what a result keeps: the configuration as the server gives it, unless it is too large, and its digest.

    Both are unknown if the configuration is, for the reason `silent`.
    """
    if config is None:
        return unknown(silent), unknown(silent)
    try:
        size_kib = len(json.dumps(config)) / 1024
        digest = hashlib.sha256(json.dumps(meaning(config), sort_keys=True).encode()).hexdigest()
    except RecursionError:
        deep = "it is nested too deep to be read"
        return unknown(deep), unknown(deep)
    large = f"it has {size_kib:,.0f} KiB, and a result keeps {MAX_KIB} at most"
    return unknown(large) if size_kib > MAX_KIB else config, digest


def meaning(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values by dotted keys, without zero, false or empty ones, which a server may omit (proto3).

    A group itself is one more key, with {}: `dynamic_batching` without a value is not the same as none.
    """
    return flat(config, prefix, zeros=False)


def flat(tree: Mapping[str, Any], prefix: str = "", *, zeros: bool = True) -> dict[str, Any]:
    """Return the values of a tree by dotted keys; the keys of a list of groups are their numbers."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, list) and any(isinstance(each, dict) for each in value):
            value = {str(number): each for number, each in enumerate(value)}  # noqa: PLW2901
        if isinstance(value, dict):
            if value and not zeros:
                found[f"{prefix}{key}"] = {}
            found |= flat(value, f"{prefix}{key}.", zeros=zeros)
        elif value or zeros:
            found[f"{prefix}{key}"] = value
    return found
