"""The shape that all documents share: an answer, own sections, and behind them machine, software and command."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from servemark.results.schema.details import VerdictOfRun
from servemark.results.schema.header import Header
from servemark.results.schema.run import Result
from servemark.results.served_config import flat
from servemark.views.blocks import Article, Badge, Block, Facts, Section
from servemark.views.verdict import badges as badges_of
from servemark.views.verdict import meaning, verdict_of

FAILED, PARTIAL = Badge("FAILED", "bad"), Badge("PARTIAL", "bad")
_TONES = {"better": "good", "same": "good", "not worse": "good", "trusted": "good"}
_TONES |= {"worse": "bad", "missed": "bad", "not trusted": "bad"}
"""Of outcomes; any other is open."""


def shaped(
    document: Any,
    *,
    about: str,
    answer: str,
    sections: Sequence[Section],
    explained: Sequence[str] = (),
    badges: Sequence[Badge] = (),
    verdict: VerdictOfRun | None = None,
    behind: Sequence[Section] = (),
    outcome: str = "",
    failed: object = False,
    last: str = "Environment",
    before_environment: Sequence[Block] = (),
) -> Article:
    """Compose the article of a document, which says itself if it is partial; `failed`: if any part of it did.

    A run's `verdict` stands between what was measured and what is `behind` it. `outcome` is the word for what a
    campaign or a difference came to, where there is one. `last` is the heading of the environment.
    """
    shown, words, of_verdict = [*badges], [*explained], list[Section]()
    if verdict:
        shown += badges_of(verdict)
        words += meaning(verdict)
        of_verdict = [Section("Verdict", [verdict_of(verdict)])]
    if outcome:
        shown.append(Badge(outcome.upper(), _TONES.get(outcome, "open")))
    environs = Section(last, lambda: [*before_environment, *environment(document)])
    return Article(
        about=about,
        answer=answer,
        explained=words,
        sections=[*sections, *of_verdict, *behind, environs],
        badges=[*shown, *([FAILED] if failed else []), *([PARTIAL] if document.get("partial") else [])],
        made=made(document),
    )


_MACHINE = {
    "hostname": "host",
    "cpu": "CPU",
    "cores": "cores",
    "cores_limited_by": "cores limited by",
    "cpu_governor": "governor",
    "memory_gb": "memory, GB",
    "container": "container",
    "virtual_machine": "virtual machine",
    "driver": "GPU driver",
    "cuda": "CUDA",
    "os": "system",
    "kernel": "kernel",
    "python": "Python",
    "load_average": "load average",
}


def made(document: Header) -> str:
    """When, where and from which state of the code, in one line."""
    around: Mapping[str, Any] = document["environment"]
    commit = str(around.get("git_commit") or "unknown")[:12]
    commit += " with uncommitted changes" if around.get("git_dirty") else ""
    gpus = ", ".join(gpu["name"] for gpu in around.get("gpus") or []) or "no GPU"
    when = document["created"][:16].replace("T", " ")
    return f"{when} UTC; {around.get('cpu') or 'unknown CPU'}, {around.get('cores')} cores, {gpus}; commit {commit}"


def configuration(result: Result) -> list[Block]:
    """Show the options of the run, after defaults were resolved."""
    asked = {
        name: value
        for name, value in {**flat(result["request"]), **result["resolved"]}.items()
        if not (value is None or value is False or value in ("", [], {}))
    }
    served = {
        name: result.get(name) for name in ("engine", "device", "provider", "precision", "protocol", "artifact_sha256")
    }
    found = {**asked, **{f"served {name}": value for name, value in served.items() if value}}
    return [
        Facts([(name.replace("_", " "), _said(value)) for name, value in found.items()], "Configuration", folded=True)
    ]


def environment(document: Header) -> list[Block]:
    """Machine, software and the command."""
    around: Mapping[str, Any] = document["environment"]
    rows = [(words, _said(around[key])) for key, words in _MACHINE.items() if around.get(key) is not None]
    rows += [(f"GPU {gpu.get('index', number)}", _said(gpu)) for number, gpu in enumerate(around.get("gpus") or [])]
    rows += [(name, value) for name, value in (around.get("variables") or {}).items()]
    packages = [(name, str(version)) for name, version in around["packages"].items()]
    packages.append(("commit", f"{around.get('git_commit')}{' (changed)' if around.get('git_dirty') else ''}"))
    return [
        Facts(rows, "Machine", folded=True),
        Facts(packages, "Software", folded=True),
        Facts([("command", shlex.join(document["command"]))], "Command", folded=True),
    ]


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_said(each)}" for name, each in value.items() if each is not None)
    if isinstance(value, list):
        return ", ".join(map(_said, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
