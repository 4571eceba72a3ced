"""Run the program of a case with one release, and judge what it claims."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from audit.claims import Expected, formats
from audit.claims.formats import Format
from audit.claims.judge import Checked, check
from results.zoo.cases import PROGRAM, Case
from results.zoo.environments import Environment

# Bound on the probability that samples refute any true claim of one release.
ERROR = 0.001
# Longer than any program takes on two cores, in seconds.
LONGEST = 900.0
CLAIMS = "claims.json"  # what a program writes
_MECHANISMS, _VERSION = "mechanisms", "version"
_HEADING = """\
# {package} {version}: the claims of the case {case}, recorded on a run of the program.
#
#     audit-check --error {error:g} {file}
"""


class ProgramError(Exception):
    """A program failed, or wrote something else than claims."""


def run(case: Case, version: str, environment: Environment, work: Path) -> dict[str, Any]:
    """Run a program in an empty folder, and return what it wrote.

    Raises
    ------
    ProgramError
        If it fails, takes too long, or the claims are not those of this release.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    program = (case.folder / PROGRAM).absolute()
    try:
        ended = subprocess.run(
            [environment.python, program],
            cwd=work,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
            env=environment.variables(case.shared),
        )
    except subprocess.TimeoutExpired:
        raise ProgramError(f"the program took longer than {LONGEST:g} s") from None
    (work / "output.txt").write_text(ended.stdout + ended.stderr, encoding="utf-8")
    if ended.returncode:
        lines = ended.stderr.strip().splitlines() or ["no message"]
        raise ProgramError(f"the program ended with status {ended.returncode}: {lines[-1]}")
    try:
        told = json.loads((work / CLAIMS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProgramError(f"the program wrote no {CLAIMS}: {error}") from None
    return _checked(told, case.releases[version].expected, version)


def _checked(told: Any, expected: Mapping[str, Expected], version: str) -> dict[str, Any]:
    if not isinstance(told, dict) or not isinstance(told.get("claims"), list):
        raise ProgramError(f"{CLAIMS} must hold version and claims")
    if told.get(_VERSION) != version:
        raise ProgramError(f"the program must run {version}, it ran {told.get(_VERSION)}")
    ids = [claim.get("id") for claim in told["claims"] if isinstance(claim, dict)]
    if sorted(map(str, ids)) != sorted(expected):
        raise ProgramError(
            f"the program must make the claims {', '.join(sorted(expected))}, "
            f"it made {', '.join(map(str, ids))}"
        )
    return told


def judge(case: Case, version: str, told: Mapping[str, Any], work: Path, out: Path) -> Checked:
    """Judge the claims of a program, and write the claims file, samples, table and witnesses.

    Parameters
    ----------
    case, version
        The release.
    told
        What the program wrote.
    work
        Its folder, with the samples that its claims name.
    out
        The folder of the case's results.
    """
    name = f"{case.package}-{version}"
    for old in out.glob(f"{name}.*"):
        old.unlink()
    out.mkdir(parents=True, exist_ok=True)
    expected = case.releases[version].expected
    claims = [
        {
            **_with_samples(_with_numbers(claim), name, work, out),
            "expected": expected[claim["id"]].value,
        }
        for claim in told["claims"]
    ]
    plain = {key: told[key] for key in (_MECHANISMS,) if key in told} | {"claims": claims}
    file = out / f"{name}.claims.yaml"
    heading = _HEADING.format(
        package=case.package, version=version, case=case.name, error=ERROR, file=file.name
    )
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
    file.write_text(heading + text, encoding="utf-8")
    checked = check([file], error=ERROR)
    (out / f"{name}.md").write_text(formats.write(checked, Format.MARKDOWN), encoding="utf-8")
    for judgement in checked.judgements:
        if judgement.witness is not None:
            witness = out / witness_file(case, version, judgement.claim.id)
            witness.write_text(judgement.witness.to_json(), encoding="utf-8")
    return checked


def witness_file(case: Case, version: str, claim: str) -> str:
    """Return the name of a witness file, in the folder of the case's results."""
    return f"{case.package}-{version}.{claim}.witness.json"


def _with_numbers(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return the claim with numbers for the orders and errors that JSON stores as texts."""
    found = dict(claim)
    for key in ("renyi", "tradeoff"):
        if isinstance(found.get(key), dict):
            found[key] = {yaml.safe_load(at): value for at, value in found[key].items()}
    return found


def _with_samples(claim: Mapping[str, Any], name: str, work: Path, out: Path) -> dict[str, Any]:
    """Return the claim with its sample files copied beside the claims file."""
    if "samples" not in claim:
        return dict(claim)
    samples = dict(claim["samples"])
    for key in ("x", "x_prime", "file"):
        if isinstance(samples.get(key), str):
            copied = f"{name}.{samples[key]}"
            shutil.copyfile(work / samples[key], out / copied)
            samples[key] = copied
    return {**claim, "samples": samples}
