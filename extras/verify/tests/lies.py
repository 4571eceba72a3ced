"""Random false and true claims, whose witnesses are verified with python-flint alone.

    python -m venv ENV && ENV/bin/pip install python-flint
    python extras/verify/tests/lies.py --python ENV/bin/python --count 300 --seed 1

A false claim is .1 % to 50 % below what the package certifies for a random pair of a random
mechanism: its witness must verify. A true claim is at or above the upper end of that bracket: with
the same witness it must not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from audit import Batching, Losses, NoisySGD, Relation, Release, exact
from audit.claims.claim import Budget, Claim, Numbers, Statement
from audit.claims.judge import judge
from audit.constructions.explicit_laws import AllIterates
from audit.constructions.registry import kinds
from audit.curves import Order
from audit.curves.quantities import (
    ClaimedNumber,
    EpsilonAtDelta,
    Mu,
    PowerAtAlpha,
    RenyiAtOrder,
    TotalVariation,
)
from audit.mechanism import Composition

PACKAGE = Path(__file__).parents[1]
PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from audit_verify import run; run()"


@dataclass(frozen=True)
class Lie:
    """A false claim: what is claimed, the witness against it, and a number that is true."""

    subject: str
    witness: dict[str, Any]
    truth: float | None


def mechanism(rng: np.random.Generator) -> NoisySGD:
    """Return a small mechanism with any sampler, relation and release of one iterate."""
    batching = Batching(rng.choice([b.value for b in Batching]))
    relation = Relation(rng.choice([r.value for r in Relation]))
    steps = int(rng.choice([1, 2, 3, 5, 8, 30]))
    size = int(rng.choice([2, 4, 6]))
    smooth = float(rng.choice([0.4, 1.0, 1.9]))
    losses = rng.random()
    values: dict[str, Any] = {"lipschitz": 1.0, "smoothness": smooth}
    if losses < 0.2:
        values |= {"strong_convexity": smooth / 2}
    elif losses < 0.4:
        values = {"lipschitz": None, "gradient_sensitivity": 2.0, "smoothness": smooth}
    elif losses < 0.6:
        values = {"clip_norm": 1.0, "convex": False}
    eta: float | tuple[float, ...] = float(rng.choice([0.25, 0.5, 1.0]))
    if rng.random() < 0.2 and steps < 30:
        eta = tuple(float(x) for x in rng.uniform(0.2, 1.0, steps))
    release = Release.LAST_ITERATE
    if not batching.renews and rng.random() < 0.2:
        release = Release(rng.choice(["random stop", "random skip"]))
    changing = batching in (Batching.FULL, Batching.CYCLIC, Batching.POISSON)
    if release is Release.LAST_ITERATE and changing and rng.random() < 0.1:
        values["losses"] = Losses.CHANGING
    domain = float(rng.choice([1.0, 3.0])) if rng.random() < 0.6 else None
    return NoisySGD(
        steps=steps, dataset_size=size + batching.drops_rest,
        batch_size=size if batching is Batching.FULL else size // 2,
        step_size=eta, noise_std=float(rng.choice([0.5, 0.8, 1.5])), batching=batching,
        relation=relation, release=release, diameter=domain,
        max_batch_size=2 if batching is Batching.TRUNCATED_POISSON else None, **values,
    )  # fmt: skip


def composition(rng: np.random.Generator) -> AllIterates:
    """Return the pair of one run or of several that release all iterates, up to 10,000 steps."""
    relation = Relation(rng.choice([r.value for r in Relation]))
    parts = []
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        batching = Batching.POISSON if rng.random() < 0.8 else Batching.FULL
        steps = int(rng.choice([1, 10, 100, 1000, 10_000])) if batching is Batching.POISSON else 5
        n = 1000
        b = n if batching is Batching.FULL else int(rng.choice([1, 10, 100]))
        multiplier = float(rng.uniform(0.8, 3.0)) * max(1.0, steps**0.5 * b / n)
        m = NoisySGD(
            steps=steps, dataset_size=n, batch_size=b, step_size=1.0, noise_std=1.0, clip_norm=1.0,
            convex=False, batching=batching, relation=relation, release=Release.ALL_ITERATES,
        )  # fmt: skip
        parts.append(replace(m, noise_std=multiplier * m.sensitivity / b))
    return AllIterates(parts[0] if len(parts) == 1 else Composition(tuple(parts)))


def statement(law: Any, rng: np.random.Generator) -> tuple[Statement, float | None] | None:
    """Return a false statement about a law, and a number that is true; None if it leaks nothing."""
    below = 1 - float(10 ** rng.uniform(-3, np.log10(0.5)))
    delta, alpha = float(10 ** rng.uniform(-6, -2)), float(rng.choice([1.5, 2.0, 8.0]))
    choices = (
        EpsilonAtDelta(delta),
        RenyiAtOrder(alpha),
        PowerAtAlpha(0.1),
        Mu(),
        TotalVariation(),
    )
    quantity = choices[int(rng.integers(len(choices)))]
    brackets = [quantity.bracket(law, order) for order in Order]
    low, high = brackets[int(rng.integers(2))][0], max(high for _, high in brackets)
    least = 0.1 if isinstance(quantity, PowerAtAlpha) else 0.0
    if not 1e-4 < low - least < 40:
        return None
    wrong = ClaimedNumber(quantity, least + below * (low - least))
    return Numbers((wrong,)), high if np.isfinite(high) else None


def lies(count: int, seed: int, *, composed: bool) -> Iterator[Lie]:
    """Yield false claims over all constructions, each with its witness."""
    rng = np.random.default_rng(seed)
    every = list(kinds().values())
    while count:
        if composed:
            pair: Any = composition(rng)
        else:
            try:
                m = mechanism(rng)
            except ValueError:  # an impossible mechanism
                continue
            kind = every[int(rng.integers(len(every)))]
            pair = next(iter(kind.random(m, rng)), None)
            if pair is None:
                continue
        try:
            law = exact.curve(pair)
        except ValueError:  # it has no law at this precision
            continue
        found = statement(law, rng)
        if found is None:
            continue
        wrong, truth = found
        budget = Budget(seconds=30.0)
        known = {"mechanism": pair.mechanism, "statement": wrong, "pair": pair}
        judged = judge(Claim(id="lie", budget=budget, **known))
        if judged.witness is None:
            yield Lie(f"{pair!r}: {judged.message}", {}, None)
        else:
            yield Lie(repr(pair), json.loads(judged.witness.to_json()), truth)
        count -= 1


def answer(python: str, witness: dict[str, Any], folder: Path) -> tuple[int, str, float]:
    """Return the exit status of the verifier, its first line, and its seconds of CPU time.

    More bits than there is time for do not verify it.
    """
    file, began = folder / "lie.witness.json", os.times()
    file.write_text(json.dumps(witness), encoding="utf-8")
    command = [python, "-I", "-c", PROGRAM, str(PACKAGE), str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    except subprocess.TimeoutExpired:
        return 3, "not verified in 300 s", 300.0
    line = (done.stdout or done.stderr).strip().splitlines()
    seconds = os.times().children_user - began.children_user
    return done.returncode, line[0] if line else "", seconds


def main() -> int:
    """Verify random lies, and the same witnesses against the truth; print what is not right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python", default=sys.executable, help="of an environment with python-flint"
    )
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compositions", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder for witnesses that are not verified")
    options = parser.parse_args()
    wrong, slowest, kinds_met = 0, 0.0, {}
    with tempfile.TemporaryDirectory() as folder:
        for lie in lies(options.count, options.seed, composed=options.compositions):
            if not lie.witness:
                wrong += 1
                print(f"no witness: {lie.subject}", flush=True)
                continue
            status, line, seconds = answer(options.python, lie.witness, Path(folder))
            slowest = max(slowest, seconds)
            name = lie.witness["construction"].split("(")[0]
            kinds_met[name] = kinds_met.get(name, 0) + 1
            if status or seconds > 60:
                wrong += 1
                print(f"lie: {line} ({seconds:.0f} s): {lie.subject}", flush=True)
                if options.keep is not None:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    kept = options.keep / f"{options.seed}.{wrong}.witness.json"
                    kept.write_text(json.dumps(lie.witness), encoding="utf-8")
            if lie.truth is None:
                continue
            truth = {**lie.witness, "claimed": lie.truth, "slack": 0.0}
            status, line, seconds = answer(options.python, truth, Path(folder))
            if status not in (1, 3):  # not refuted, or not in the time and memory allowed
                wrong += 1
                print(f"truth: {line}: {lie.subject}", flush=True)
    print(
        f"{options.count} false claims, {wrong} not verified; at most {slowest:.0f} s; {kinds_met}"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
