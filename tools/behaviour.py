"""Record and compare the command line's behaviour: a safety net for a change that should change nothing.

`python tools/behaviour.py record CHECKOUT OUT` runs the commands of behaviour.txt on a checkout, in some
six minutes. OUT keeps the exit code, the words and every file of each.

`python tools/behaviour.py diff OUT_A OUT_B` prints each difference between two recordings.
Facts are exit codes, names of files, keys of documents and values that do not depend on the machine's speed.
Of a measured figure only the type is a fact. Words are shown apart, with their numbers left out.
The exit code is 1 where a fact differs.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

TIMEOUT_S = 300.0
ATTEMPTS = 3
"""A busy machine may fail a run that has to be valid, or has to miss nothing but its objective."""
VERDICT_CODES = {"0", "2", "4"}
INTERRUPTED = "130"
"""Such a command is interrupted once it says something: progress, so that a result is there."""


class Command(NamedTuple):
    """One command line; `code` is the exit code it must have, or "?" where that hangs on measured figures."""

    name: str
    code: str
    line: str


def table() -> list[Command]:
    """The commands of behaviour.txt."""
    text = re.sub(r"^#.*\n", "", Path(__file__).with_suffix(".txt").read_text(), flags=re.MULTILINE)
    shorthand = re.compile(r"^({\w+}) = (.*)\n", re.MULTILINE)
    commands = shorthand.sub("", text)
    for short, line in shorthand.findall(text):
        commands = commands.replace(short, line)
    rows = [row.split(maxsplit=2) for row in commands.splitlines() if row]
    return [
        Command("error_" + re.sub(r"[^a-z0-9]+", "_", line) if name == "-" else name, code, line)
        for name, code, line in rows
    ]


class Recorder:
    """Runs commands of one checkout and keeps what came of each in a folder of its own."""

    def __init__(self, checkout: Path, out: Path) -> None:
        self.checkout, self.out = checkout.resolve(), out.resolve()
        self.out.mkdir(parents=True)
        (self.out / "places").write_text(f"{self.checkout}\n{self.out}\n")
        (self.out / "trace.csv").write_text("time_s\n" + "".join(f"{n / 40:.3f}\n" for n in range(80)))
        names = {"repo": "model_repo", "tuned": "tuned_repo", "none": "none", "trace": "trace.csv"}
        self.values = {key: str(self.out / name) for key, name in names.items()}
        self.environment = {**os.environ, "PYTHONPATH": str(self.checkout), "NO_COLOR": "1", "TERM": "dumb"}
        where = [sys.executable, "-c", "import servemark; print(servemark.__file__)"]
        found = subprocess.check_output(where, cwd=self.checkout, env=self.environment, text=True)
        if not Path(found).is_relative_to(self.checkout):
            raise SystemExit(f"servemark is imported from {found.strip()}, not from {self.checkout}")

    def record(self) -> None:
        """Run every command: those that measure one by one, after the server is there, then help and errors."""
        commands = {command.name: command for command in table()}
        quick = [command for command in commands.values() if command.name.startswith(("help_", "error_"))]
        exports = [command for command in commands.values() if command.name.startswith("export_")]
        serve = commands["serve"]
        for command in exports:
            self.run(command)
        server, folder = self.start(serve)
        try:
            address = self.address(server, folder)
            self.values |= {"url": address["url"], "grpc": f"grpc://{address['grpc']}"}
            for command in commands.values():
                if command not in [*exports, serve, *quick]:
                    self.run(command)
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(self.run, quick))
        finally:
            server.send_signal(signal.SIGINT)
            self.finish(server, folder, serve.line)

    def run(self, command: Command) -> None:
        """Run a command to its end, again where its exit code is not what it has to be and chance may be why."""
        for _ in range(ATTEMPTS):
            process, folder = self.start(command)
            if command.code == INTERRUPTED:
                while process.poll() is None and not (folder / "stderr").stat().st_size:
                    time.sleep(0.1)
                process.send_signal(signal.SIGINT)
            code = self.finish(process, folder, command.line)
            if command.code in {"?", code} or code not in VERDICT_CODES:
                break

    def start(self, command: Command) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a command in its own process group; its folder is empty before."""
        folder = self.out / "commands" / command.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        values = {**self.values, "out": str(folder / "out")}
        for name in re.findall(r"{result:(\w+)}", command.line):
            results = (self.out / "commands" / name).glob("out/*")
            values[f"result:{name}"] = str(next(results, values["none"]))
        line = re.sub(r"{([\w:]+)}", lambda found: values[found[1]], command.line)
        with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "servemark", *shlex.split(line)],
                cwd=self.checkout,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        return process, folder

    def address(self, server: subprocess.Popen[bytes], folder: Path) -> dict[str, str]:
        """The server's URLs, once it says them."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline and server.poll() is None:
            try:
                found: dict[str, str] = json.loads((folder / "stdout").read_text())
            except ValueError:
                time.sleep(0.2)
            else:
                return found
        raise SystemExit(f"no server: {(folder / 'stderr').read_text()}")

    def finish(self, process: subprocess.Popen[bytes], folder: Path, line: str) -> str:
        """Wait for a command, or kill its group at the deadline; keep its exit code."""
        began = time.monotonic()
        try:
            code = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        (folder / "code").write_text(f"{code}\n")
        sys.stderr.write(f"{time.monotonic() - began:5.1f} s  exit code {code:3}  {line}\n")
        return str(code)


DROPPED = re.compile(
    r"\.(batch_sizes|by_kind|messages)\.|_reason$|\.failed\b|\bnot_tried\b"  # keys are data
    r"|\bfigures\..*\.(ci95|reason)$|\.largest_other$"
    r"|\brows\.\*\.ratio\.p99\b|log\.jsonl .*sha256"  # a ratio needs enough requests on both sides
)
"""Paths of which not even the presence is certain."""
ANY = re.compile(
    r"\blimited_by\b|\.trouble$|\benvironment\.(load_average|git_)|\b(reading|regression|reason|remedy|evidence)$"
    r"|constraints\..*(achieved_rate|schedule_delay_p99|steady_state)\.(limit|unit)$"
    r"|^run_max_rate/\S+ (config\.(request_rate|seed)|seed|max_rate\b.*|resolved\.rate)$"
    r"|\b(cpu idle|disk)\.(ok|detail)$|knee|\bdrift$"
    r"|^tune/\S+ (winner|outcome|lacked|written|rounds|rat.*|candidates.*)$"
)
"""Paths that are there, with a value or null as chance has it."""
MEASURED = re.compile(
    r"\b(latency_ms|output_agreement|inferences_per_s|variation|ratio)\."
    r"|\bfigures\.(?!generator\.workers\.).*\.(value|n)$|\bdetails\.(energy|generator)\.|shown\.(?!confidence)"
    r"|\b(valid|objective|objective_missed|status|exit_code|unsteady|\w+_rounds)$|(constraints|objectives)\..*\.(ok|value)$|\bstages\.\*\.(?!start|duration|requested)"
    r"|\b(windows|workers)\.|\bloadgen\.(?!version)|\b(turns|points)\.\*\.(\w+_ms|\w+_per_s|completed_share)$"
    r"|\b(created|collected|measured_s|seconds|peak_rss_mib|busy_share|spent_s|expected_latency_ms|pid|artifact_sha256|source_sha256)$"
    r"|differences\.[^.]+\.(a|b)$|histograms\.json"
)
"""Paths of figures: their type is a fact, their value is none."""
COUNTS = re.compile(r"\bfigures\.(requests\.answered\.value|latency\..*\.n)$|\.scheduled$")
"""Figures that follow from the seed where requests go out on a schedule."""
UNSURE = re.compile(r"\bp\d+(_\d)?(_ms)?$|\.p[\d.]+\.value$|output_agreement\.|\bfigures\.outputs\.")
"""Figures that few requests do not have."""
UNSURE_LINE = re.compile(r"->|limited by|pN <=|with N% confidence|servemark ms|N:N:N|\|(?=.*(ratio|N\*|---))")
"""Lines that not every run has: progress, remedies, columns of figures that few requests do not have."""
VARYING = re.compile(r"<n>/")
"""Documents whose number is chance: their keys are facts."""


class Recording:
    """One recording, read for comparison."""

    def __init__(self, out: Path) -> None:
        self.commands = {folder.name: folder for folder in sorted((out / "commands").iterdir())}
        self.commands |= {folder.name: folder for folder in sorted(out.glob("*_repo"))}
        self.judged = {command.name for command in table() if command.code in {"?", "4"} or "--slo" in command.line}
        self.checkout, self.out = (Path(line) for line in (out / "places").read_text().split("\n")[:2])

    def clean(self, text: str) -> str:
        """Text without what differs from place to place and from time to time."""
        places = {os.path.relpath(self.out, self.checkout): "<out>", self.out: "<out>", self.checkout: "<checkout>"}
        for place, name in places.items():
            text = text.replace(str(place), name)
        text = re.sub(r"<out>/commands/(\w+)/out", "<results>", text)
        text = re.sub(r"[^\s'\"=]*/site-packages/|(?<=servemark-triton-)\w+", "", text)
        text = re.sub(r"(127\.0\.0\.1:|port=)\d+", r"\1<port>", text)
        text = re.sub(r"\d{8}-\d{6}-([\w-]+?)(-\d)?\b(?![\w-])", r"<time>-\1", text)
        text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.+]+", "<time>", text)
        return re.sub(r"\b(\d\d-\d+(\.\d+)?|\d{3}-(screen|\w+))(?=/)", "<n>", text)

    def facts(self, name: str) -> dict[str, set[str]]:
        """Return the facts that a command must repeat: path -> the values found there."""
        found: dict[str, set[str]] = defaultdict(set)
        if (code := self.commands[name] / "code").exists():
            found["exit code"].add(self.code(name, code.read_text().strip()))
        for file, label in self.files(name):
            found[f"{label} "].add("there")
            for document in documents(file):
                for path, value in self.figures(name, label, document):
                    found[f"{label} {path}"].add(value)
            if file.suffix == ".csv":
                found[f"{label} columns"].add(file.read_text().split("\n", 1)[0])
        if name.startswith("help_"):
            found["options"] = set(re.findall(r"--[a-z][\w-]+", (self.commands[name] / "stdout").read_text()))
        return found

    def code(self, name: str, code: str) -> str:
        """The exit code, or that it is the one which follows from the only result's constraints."""
        results = list(self.commands[name].glob("out/*/result.json"))
        if code not in VERDICT_CODES or name not in self.judged:
            return code
        if len(results) != 1:
            return "0, 2 or 4"
        verdict = json.loads(results[0].read_text())["verdict"]
        valid = all(constraint["ok"] for constraint in verdict["constraints"])
        follows = {None: "0", "met": "0", "missed": "4"}.get(verdict["objective"], "2") if valid else "2"
        return "as the constraints say" if code == follows else f"{code}, not {follows}"

    def files(self, name: str) -> Iterator[tuple[Path, str]]:
        """Every file of a command, with a name that is the same each time."""
        folder = self.commands[name]
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name not in {"code", "stderr"}:
                label = self.clean(str(file.relative_to(folder)))
                yield file, label.removeprefix("out/")

    def figures(self, name: str, label: str, document: Any) -> Iterator[tuple[str, str]]:
        """The paths of a document, each with its value, or its type where it is measured."""
        load = document.get("request", {}).get("load") if isinstance(document, dict) else None
        scheduled = load is not None and load["kind"] in {"constant-rate", "stages", "trace"}
        exact = scheduled and not document.get("partial") and not VARYING.search(label)
        for path, value in flatten(document):
            subject = f"{name}/{label} {path}"
            if DROPPED.search(subject) and not (exact and path.endswith("reason")):
                continue
            if ANY.search(subject) or VARYING.search(label):
                yield path, "there"
            elif MEASURED.search(subject) and not (exact and COUNTS.search(path)):
                yield path, "number or null" if not exact and UNSURE.search(path) else kind(value)
            else:
                yield path, self.clean(json.dumps(value))

    def words(self, name: str) -> set[str]:
        """The lines of a command's texts, without numbers and without what a verdict says."""
        folder, found = self.commands[name], set()
        for file in (folder / "stdout", folder / "stderr", *folder.rglob("*.md")):
            if file.exists() and not documents(file):
                for line in self.clean(file.read_text()).splitlines():
                    plain = re.sub(r"\b((IN)?VALID|Yes|No)\b.*|(not significant|better|worse)\s*$", "<verdict>", line)
                    plain = re.sub(r"(?<!\S)-(?!\S)|[-+]?\d[\d,.]*(e[-+]?\d+)?", "N", plain)
                    found.add(" ".join(plain.split()))
        return {line for line in found if not UNSURE_LINE.match(line)}


def documents(file: Path) -> list[Any]:
    """The JSON documents of a file, the first of a log; none where it is something else."""
    text = file.read_text() if file.suffix in {".json", ".jsonl", ""} else ""
    try:
        found = [json.loads(line) for line in (text.splitlines()[:1] if file.suffix == ".jsonl" else [text])]
    except ValueError:
        return []
    return found


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its path. Items of a list go by their name where they have one."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from flatten(below, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for item in value:
            named = next((item[key] for key in ("name", "workload", "figure") if item.get(key)), "*")
            yield from flatten(item, f"{path}.{named}")
    elif isinstance(value, list) and any(isinstance(item, str) for item in value):
        for item in value:
            yield f"{path}[]", item
    else:
        yield path, value


def kind(value: Any) -> str:
    """The type of a figure."""
    return "number" if type(value) in {int, float} else type(value).__name__


def differences(a: dict[str, set[str]], b: dict[str, set[str]]) -> Iterator[tuple[str, str, str]]:
    """Path, old and new, where two commands' facts differ."""
    for path in sorted(a.keys() | b.keys()):
        old, new = a.get(path, set()), b.get(path, set())
        file = f"{path.split()[0]} "
        apart = file != path and (file in a) != (file in b)
        if old != new and not apart:
            yield path, " ".join(sorted(old - new)) or "-", " ".join(sorted(new - old)) or "-"


def diff(out_a: Path, out_b: Path) -> int:
    """Print what differs between two recordings, and in which commands; 1 where a fact does."""
    a, b = Recording(out_a), Recording(out_b)
    facts, words = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for name in sorted(a.commands.keys() | b.commands.keys()):
        if name not in a.commands or name not in b.commands:
            facts[f"recorded in {out_a if name in a.commands else out_b} only"].append(name)
            continue
        for path, old, new in differences(a.facts(name), b.facts(name)):
            facts[f"{path}\n    - {old}\n    + {new}"].append(name)
        old_words, new_words = a.words(name), b.words(name)
        for line in sorted(old_words ^ new_words):
            words[f"{'-' if line in old_words else '+'} {line}"].append(name)
    for title, found in (("facts", facts), ("words", words)):
        print(f"{title}: {len(found) or 'no'} differences")
        for difference, names in found.items():
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            print(f"  {difference}\n    in {', '.join(names[:4])}{more}")
    return int(bool(facts))


def main() -> None:
    """Record or compare."""
    match sys.argv[1:]:
        case ["record", checkout, out]:
            Recorder(Path(checkout), Path(out)).record()
        case ["diff", out_a, out_b]:
            sys.exit(diff(Path(out_a), Path(out_b)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
