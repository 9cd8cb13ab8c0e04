"""Checks of a GPU in a few minutes: `python -m tests.cuda.device_check --seconds 220 --out FILE`.

Each group is a process of its own with a limit of time, several at once, so that a device that is
lost in one hides nothing of the others. The table is printed, and FILE has all failures as JSON.
`--platform cuda-twin` checks the host's twin, without a GPU; `--only golden,hlo` chooses.
"""

import collections
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.command_line import command_line

ROOT = Path(__file__).parents[2]
FIRST = ("facts", "driver")
"""Groups that are alone, before all others."""


def main(words: Sequence[str]) -> int:
    """Do what the words say; 1 where a check failed."""
    parser = command_line("tests.cuda.device_check", __doc__)
    parser.add_argument("--platform", default="cuda")
    parser.add_argument("--seconds", type=float, default=220)
    parser.add_argument("--out", type=Path, default=Path("build/device_check.json"))
    parser.add_argument("--only", default="")
    parser.add_argument("--at-once", type=int, default=max(1, (os.cpu_count() or 1) - 4))
    parser.add_argument("--group", help="do one group here, and print a line for each check")
    given = parser.parse_args(words)
    if given.group:
        _do(given.group, given.platform)
        return 0
    return _do_all(given)


def _do(group: str, platform: str) -> None:
    # Modules of a group are loaded in its process alone.
    from tests.cuda.checks.groups import outcomes_of

    for outcome in outcomes_of(group, platform):
        print(outcome.line, flush=True)


def _do_all(given: Any) -> int:
    from tests.cuda.checks.group_names import NAMES

    words = [word for word in given.only.split(",") if word]
    chosen = [name for name in NAMES if not words or any(word in name for word in words)]
    end = time.monotonic() + given.seconds
    found: dict[str, list[dict[str, str]]] = {}
    for name in [name for name in chosen if name in FIRST]:
        found[name] = _in_process(name, given.platform, end)
        _show(name, found[name])
    others = [name for name in chosen if name not in FIRST]
    with concurrent.futures.ThreadPoolExecutor(given.at_once) as pool:
        jobs = {pool.submit(_in_process, name, given.platform, end): name for name in others}
        for job in concurrent.futures.as_completed(jobs):
            found[jobs[job]] = job.result()
            _show(jobs[job], found[jobs[job]])
    return _report(found, given.out)


def _in_process(group: str, platform: str, end: float) -> list[dict[str, str]]:
    """Return what became of a group's checks, as far as they came."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__]
    command += ["--group", group, "--platform", platform]
    path = os.pathsep.join(str(ROOT / part) for part in (".", "protos", "client", "server"))
    environment = os.environ | {"PYTHONPATH": f"{path}:{os.environ.get('PYTHONPATH', '')}"}
    environment.setdefault("JAX_PLATFORMS", "cpu")
    if group == "conformance":
        # Its programs let operands of f32 be rounded to TF32, and its bounds are those of f32.
        environment["NVIDIA_TF32_OVERRIDE"] = "0"
    begin, ending = time.monotonic(), ""
    with tempfile.TemporaryFile("w+") as written, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command,
            stdout=written,
            stderr=said,
            text=True,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        try:
            process.wait(max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            ending = f"stopped after {time.monotonic() - begin:.0f} s"
        if process.returncode > 0 or (process.returncode < 0 and not ending):
            said.seek(0)
            ending = f"ended with {process.returncode}: {said.read()[-3000:]}"
        written.seek(0)
        lines = [line for line in written.read().splitlines() if line.startswith('{"name"')]
    records: list[dict[str, str]] = [json.loads(line) for line in lines if line.endswith("}")]
    if ending:
        records.append({"name": "the process", "status": "raised", "text": ending})
    records.append({"name": "seconds", "status": "", "text": f"{time.monotonic() - begin:.1f}"})
    return records


def _show(group: str, records: Sequence[dict[str, str]]) -> None:
    """Print a line of the table, and the first failures."""
    counts = collections.Counter(record["status"] for record in records)
    figures = "  ".join(f"{word} {counts[word]:4}" for word in ("ok", "bits", "wrong", "raised"))
    print(f"{group:14} {figures}  {records[-1]['text']:>6} s", flush=True)
    bad = [record for record in records if record["status"] not in ("", "ok")]
    for record in bad[:3]:
        text = record["text"].replace("\n", " ")
        print(f"    {record['status']} {record['name']}: {text[:160]}", flush=True)
    for record in records:
        if record["status"] == "ok" and record["text"]:
            print(f"    {record['name']}: {record['text']}", flush=True)


def _report(found: dict[str, list[dict[str, str]]], out: Path) -> int:
    bad = {
        group: [record for record in records if record["status"] not in ("", "ok")]
        for group, records in found.items()
    }
    counts = {
        group: collections.Counter(record["status"] for record in records)
        for group, records in found.items()
    }
    facts = [record for record in found.get("facts", []) if record["text"]]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"facts": facts, "counts": counts, "failures": bad}, indent=1))
    failed = sum(map(len, bad.values()))
    passed = sum(count["ok"] for count in counts.values())
    print(f"{passed} checks passed, {failed} failed; {out} has the failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
