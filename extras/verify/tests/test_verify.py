"""Claims just below the truth are refuted; those just above it, and forged witnesses, are not."""

from __future__ import annotations

import copy
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flint")

from flint import arb, ctx

from audit_verify import Answer, main, verify

PACKAGE = Path(__file__).parents[1]


def normal(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2


def gaussian_delta(epsilon: float, mu: float) -> float:
    return normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)


def root(function, goal: float, low: float, high: float) -> float:
    """Return where a falling function reaches a goal."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > goal else (low, middle)
    return low


def mixture(weights, means, std: float):
    return {"weights": weights, "means": means, "stds": [std] * len(means)}


def witness(pair, partition, quantity: str, at: float, claimed: float, **changes):
    return {
        "format": 2,
        "claim": "a.claim",
        "quantity": quantity,
        "at": at,
        "claimed": claimed,
        "slack": 0.0,
        "order": "forward",
        "bracket": [0.0, None],
        "evidence": "exact",
        "construction": "a pair",
        "pair": pair,
        "partition": partition,
        "mechanism": None,
        **changes,
    }


def chain(shift: float, times: int, std: float, ends=(None, None), weight: float = 1.0, slope=1.0):
    maps = [{"weight": weight, "points": [0.0], "values": [shift], "slopes": [slope, slope]}]
    if weight < 1:
        maps.append({"weight": 1 - weight, "points": [0.0], "values": [0.0], "slopes": [slope] * 2})
    return {
        "start": 0.0, "lower": ends[0], "upper": ends[1], "lower_wall": "clamp",
        "upper_wall": "clamp",
        "paths": [{"probability": 1.0, "segments": [
            {"times": times, "steps": [{"noise_std": std, "maps": maps}]}]}],
    }  # fmt: skip


def process(first, second):
    return {"kind": "process", "first": first, "second": second}


GAUSSIANS = {
    "kind": "mixtures", "first": mixture([1.0], [1.0], 1.0), "second": mixture([1.0], [0.0], 1.0),
    "times": 1,
}  # fmt: skip
EPSILON = root(lambda e: gaussian_delta(e, 1.0), 1e-5, 0.0, 20.0)
FINE = [-38 + 0.01 * i for i in range(7600)]
RESPONSE = {"kind": "finite", "first": [0.75, 0.25], "second": [0.25, 0.75], "times": 20}


def response_epsilon(delta: float) -> float:
    """Return epsilon of 20 runs of randomised response, summed over counts."""

    def value(epsilon: float) -> float:
        return math.fsum(
            max(0.0, math.comb(20, k) * (0.75**k * 0.25 ** (20 - k)
                - math.exp(epsilon) * 0.25**k * 0.75 ** (20 - k)))
            for k in range(21)
        )  # fmt: skip

    return root(value, delta, 0.0, 40.0)


# a witness at the true number, and how close below it the claim is refuted
TRUTHS = {
    "normals, epsilon": (
        witness(GAUSSIANS, {"cuts": [EPSILON + 0.5]}, "epsilon", 1e-5, EPSILON),
        1e-9,
    ),
    "normals, mu": (witness(GAUSSIANS, {"cuts": [1.0]}, "mu", 0.5, 1.0), 1e-9),
    "normals, power": (
        witness(
            GAUSSIANS,
            {"cuts": [1 - 1.6448536269514722]},
            "1 - beta",
            0.05,
            normal(1 - 1.6448536269514722),
        ),
        1e-6,
    ),
    "normals, Renyi": (witness(GAUSSIANS, {"cuts": FINE}, "Renyi divergence", 4.0, 2.0), 1e-4),
    "a line": (
        witness(
            process(chain(0.1, 25, 0.2), chain(-0.1, 25, 0.2)), {"cuts": [0.0]}, "mu", 0.0, 5.0
        ),
        1e-9,
    ),
    "millions of steps": (
        witness(
            process(chain(1e-3, 4_000_000, 1.0), chain(-1e-3, 4_000_000, 1.0)),
            {"cuts": [0.0]},
            "mu",
            0.0,
            4.0,
        ),
        1e-9,
    ),
    "a contraction": (
        witness(
            process(chain(0.3, 2, 2.0, slope=0.5), chain(0.0, 2, 2.0, slope=0.5)),
            {"cuts": [0.225]},
            "mu",
            0.0,
            0.45 / math.sqrt(5.0),
        ),
        1e-9,
    ),
    "randomised response": (
        witness(
            RESPONSE, {"scores": [1, 0], "modulus": 21}, "epsilon", 1e-3, response_epsilon(1e-3)
        ),
        1e-9,
    ),
    "pure epsilon of several draws": (
        witness(RESPONSE, {}, "epsilon", 0.0, 20 * math.log(3)),
        1e-9,
    ),
    "Renyi divergence of several draws": (
        witness(
            RESPONSE, {}, "Renyi divergence", 2.0, 20 * math.log(0.75**2 / 0.25 + 0.25**2 / 0.75)
        ),
        1e-9,
    ),
    "Laplace": (
        witness(
            {
                "kind": "laplacemixtures",
                "scale": 2.0,
                "means": [0.0, 1.0],
                "first": [0.0, 1.0],
                "second": [1.0, 0.0],
                "times": 1,
            },
            {"cuts": [1.0]},
            "epsilon",
            0.0,
            0.5,
        ),
        1e-9,
    ),
    "densities": (
        witness(
            {"kind": "densities", "slope": 1.0, "low": -1.0, "high": 1.0},
            {"cuts": [0.0]},
            "mu",
            0.0,
            2 * 0.6150196785,
        ),
        1e-8,
    ),
    "vectors": (
        witness(
            {
                "kind": "normalvectors",
                "strategy": [[3.0], [4.0]],
                "noise_std": 5.0,
                "times": 1,
                "first": {"weights": [1.0], "vectors": [[1.0]]},
                "second": {"weights": [1.0], "vectors": [[0.0]]},
            },
            {"cuts": [2.5], "direction": [0.6, 0.8]},
            "mu",
            0.0,
            1.0,
        ),
        1e-9,
    ),
}


def density_mu() -> float:
    gap = (math.e - 1) / (math.e + 1)  # total variation of e^x and e^-x on [-1, 1]
    return root(lambda mu: -(2 * normal(mu / 2) - 1), -gap, 0.0, 5.0)


@pytest.mark.parametrize("name", TRUTHS)
def test_claims_below_the_truth_are_refuted_and_those_above_are_not(name: str) -> None:
    content, margin = TRUTHS[name]
    truth = density_mu() if name == "densities" else content["claimed"]
    below = verify({**content, "claimed": truth * (1 - margin)})
    assert below.answer is Answer.REFUTED, below
    above = verify({**content, "claimed": truth * (1 + margin)})
    assert above.answer is Answer.NOT_REFUTED, above


def test_the_reverse_order_swaps_the_laws() -> None:
    pair = {**GAUSSIANS, "first": mixture([0.9, 0.1], [0.0, 1.0], 1.0)}
    content = witness(pair, {"cuts": [0.5]}, "epsilon", 0.0, 0.01)
    assert verify(content).answer is Answer.REFUTED
    # the first law is at least 0.9 times the second: the other order ends at -log(0.9)
    assert verify({**content, "order": "reverse", "claimed": 0.1054}).answer is Answer.NOT_REFUTED


WALKS = {
    "two walls": process(chain(0.05, 40, 0.1, (-0.5, 0.5)), chain(-0.05, 40, 0.1, (-0.5, 0.5))),
    "one wall": process(chain(0.05, 5, 0.1, (-0.5, None)), chain(-0.05, 5, 0.1, (-0.5, None))),
    "sampled": process(chain(0.2, 6, 0.3, (-1.0, 1.0), 0.4), chain(-0.2, 6, 0.3, (-1.0, 1.0), 0.4)),
}


@pytest.mark.parametrize("name", WALKS)
def test_quadrature_agrees_with_a_fine_histogram(name: str) -> None:
    """A slow twin: the law as masses of narrow cells, moved from their middles."""
    from audit_verify.walks import chain_cells

    pair = WALKS[name]
    ctx.prec = 160
    partition = {"cuts": [0.1], "window": [None, 2.5]}
    for law, column in (("first", 0), ("second", 1)):
        cells = [float(cell[column].mid()) for cell in chain_cells(pair, partition, 100)]
        assert math.isclose(sum(cells), 1.0, abs_tol=1e-12)
        assert sum(cells[-2 if pair[law]["upper"] else -1 :]) == pytest.approx(
            histogram(pair[law], 0.1), abs=2e-4
        )


def histogram(law, cut: float, count: int = 405) -> float:
    low = law["lower"]
    high = 2.5 if law["upper"] is None else law["upper"]
    width = (high - low) / count
    points = [low, *(low + (i + 0.5) * width for i in range(count)), high]
    masses = [0.0] * len(points)
    masses[1 + int((law["start"] - low) / width)] = 1.0
    segment = law["paths"][0]["segments"][0]
    (step,) = segment["steps"]
    edges = [-math.inf, *(low + i * width for i in range(count + 1)), math.inf]
    rows = []
    for x in points:
        row = [0.0] * len(points)
        for phi in step["maps"]:
            tails = [normal((e - x - phi["values"][0]) / step["noise_std"]) for e in edges]
            for j in range(len(points)):
                row[j] += phi["weight"] * (tails[j + 1] - tails[j])
        rows.append(row)
    for _ in range(segment["times"] - 1):
        masses = [
            math.fsum(m * row[j] for m, row in zip(masses, rows, strict=True) if m > 1e-12)
            for j in range(len(points))
        ]
    return math.fsum(
        m * phi["weight"] * normal((x + phi["values"][0] - cut) / step["noise_std"])
        for x, m in zip(points, masses, strict=True)
        for phi in step["maps"]
    )


def test_balls_of_more_bits_lie_within_those_of_fewer() -> None:
    from audit_verify.walks import chain_cells

    pair, partition = WALKS["two walls"], {"cuts": [-0.2, 0.2]}
    found = []
    for bits in (60, 200):
        ctx.prec = bits + 60
        found.append(chain_cells(pair, partition, bits))
    for wide, narrow in zip(*found, strict=True):
        assert all(a.contains(b.mid()) for a, b in zip(wide, narrow, strict=True))
        assert float(narrow[0].rad()) < 1e-50 < float(wide[0].rad()) < 1e-15


MECHANISM = {
    "steps": 40, "dataset_size": 4, "batch_size": 4, "step_size": 0.1, "noise_std": 1.0,
    "lipschitz": 1.0, "smoothness": 0.4, "strong_convexity": 0.0, "convex": True, "diameter": 1.0,
    "batching": "full", "relation": "replace one",
}  # fmt: skip
HONEST = witness(
    process(chain(0.05, 40, 0.1, (-0.5, 0.5)), chain(0.0, 40, 0.1, (-0.5, 0.5))),
    {"cuts": [0.0]}, "epsilon", 1e-5, 0.2, mechanism=MECHANISM,
)  # fmt: skip


def test_an_honest_witness_is_verified_within_its_mechanism() -> None:
    found = verify(HONEST)
    assert found.answer is Answer.REFUTED
    assert found.trusted == ("that the gradients depend on the batch as the sampler allows",)


def changed(content, *keys, value):
    """Return a copy with one entry replaced."""
    copied = copy.deepcopy(content)
    place = copied
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return copied


STEP = ("pair", "first", "paths", 0, "segments", 0, "steps", 0)
MAP = (*STEP, "maps", 0)
FORGED = {
    "another step count": (("mechanism", "steps"), 41, "paths must have every step"),
    "less noise": ((*STEP, "noise_std"), 0.09, "noise_std must be that of the mechanism"),
    "a larger gradient": ((*MAP, "values"), [0.2], "gradients must be within the bound"),
    "a larger change": ((*MAP, "values"), [0.08], "maps must differ by one record at most"),
    "a curvature": ((*MAP, "slopes"), [0.95, 0.95], "gradients must be smooth"),
    "a concave loss": ((*MAP, "slopes"), [1.03, 1.03], "convex losses"),
    "a kink": ((*MAP, "slopes"), [1.0, 0.89], "gradients must be smooth"),
    "a wider domain": (("mechanism", "diameter"), 0.9, "walls must be within the diameter"),
    "no domain": (("mechanism", "diameter"), None, "walls must be left out"),
    "a wall that absorbs": (("pair", "first", "lower_wall"), "absorb", "walls must clamp"),
    "another start": (("pair", "first", "start"), 0.2, "start must be that of both chains"),
    "another wall": (("pair", "second", "upper"), 0.6, "walls must be|must have the walls"),
    "a smaller batch": (("mechanism", "batch_size"), 0, "batch_size must be at least 1, got 0"),
    "weights that do not add up": ((*MAP, "weight"), 0.9, "probabilities that sum to 1"),
    "a negative weight": ((*MAP, "weight"), -1.0, "weight must be at least 0"),
    "a huge run": (
        ("pair", "first", "paths", 0, "segments", 0, "times"),
        10**12,
        r"at most 1e\+07",
    ),
    "a negative run": (("pair", "first", "paths", 0, "segments", 0, "times"), -1, "at least 0"),
    "no steps": (("pair", "first", "paths", 0, "segments", 0, "times"), 0, "of one step or more"),
    "text for a number": (("at",), "1e-5", "at must be number, got '1e-5'"),
    "a truth value for a number": (("claimed",), True, "claimed must be number"),
    "NaN": (("claimed",), math.nan, "claimed must be finite, got nan"),
    "infinity": (("claimed",), math.inf, "claimed must be finite, got inf"),
    "a large delta": (("at",), 1.0, r"in \[0, 1\) for a delta, got 1.0"),
    "a negative delta": (("at",), -0.1, r"in \[0, 1\)"),
    "an inverted bracket": (("bracket",), [2.0, 1.0], "bracket must be ascending"),
    "a name with control characters": (("claim",), "a\x1b[31m", "without control characters"),
    "an unknown quantity": (("quantity",), "luck", "quantity must be one of"),
    "an unknown kind": (("pair", "kind"), "luck", "pair must be"),
    "an old format": (("format",), 1, "format must be one of 2"),
    "an unknown name": (("luck",), 1, "luck must be left out"),
    "cuts that do not ascend": (("partition", "cuts"), [0.1, 0.0], "cuts must be ascending"),
    "no pair": (("pair",), None, "pair must be"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_witnesses_are_refused(name: str) -> None:
    keys, value, message = FORGED[name]
    found = verify(changed(HONEST, *keys, value=value))
    assert found.answer is Answer.NOT_A_WITNESS
    assert re.search(message, found.reason), found.reason
    assert "\n" not in found.reason


def test_the_same_law_twice_refutes_nothing() -> None:
    same = {**HONEST["pair"], "second": HONEST["pair"]["first"]}
    assert verify({**HONEST, "pair": same}).answer is Answer.NOT_REFUTED


def test_weights_beyond_the_sampling_rate_are_refused() -> None:
    ends, m = (-0.5, 0.5), {**MECHANISM, "batch_size": 1, "batching": "poisson", "steps": 5}
    for weight, answer in ((0.25, Answer.REFUTED), (0.5, Answer.NOT_A_WITNESS)):
        pair = process(chain(0.1, 5, 0.1, ends, weight), chain(0.0, 5, 0.1, ends))
        found = verify(witness(pair, {"cuts": [0.1]}, "epsilon", 1e-5, 0.05, mechanism=m))
        assert found.answer is answer, found


def test_a_chain_on_too_many_nodes_is_refused_at_once() -> None:
    ends = (-1e6, 1e6)
    pair = process(chain(0.1, 9, 0.1, ends, 0.5), chain(-0.1, 9, 0.1, ends, 0.5))
    found = verify(witness(pair, {"cuts": [0.0]}, "epsilon", 1e-5, 0.1))
    assert found.answer is Answer.TOO_LONG
    assert "nodes" in found.reason


def test_a_composition_of_ten_thousand_draws() -> None:
    """Subsampled Gaussian at rate 0 is a law with itself: the sums of equal laws refute nothing."""
    pair = {
        "kind": "mixtures", "first": mixture([0.99, 0.01], [0.0, 1.0], 1.0),
        "second": mixture([1.0], [0.0], 1.0), "times": 10_000,
    }  # fmt: skip
    scores, cuts = [], []
    for i in range(-40, 200):
        level = math.exp(0.01 * (i + 0.5)) - 0.99
        if level > 0:
            cuts.append(math.log(level / 0.01) + 0.5)
            scores.append(i)
    partition = {"cuts": cuts, "scores": [*scores, scores[-1] + 1], "modulus": 2000}
    content = witness(pair, partition, "epsilon", 1e-5, 3.0)
    assert verify(content).answer is Answer.REFUTED
    equal = {**pair, "second": pair["first"]}
    assert verify({**content, "pair": equal, "claimed": 0.0}).answer is Answer.NOT_REFUTED


def test_the_command_needs_python_flint_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.witness.json"
    code = (
        f"import sys; sys.path.insert(0, {str(PACKAGE)!r})\n"
        "sys.modules.update(numpy=None, audit=None)\n"
        "from audit_verify import main; sys.exit(main(sys.argv[1:]))"
    )
    for claimed, status, words in ((0.2, 0, "refuted: "), (90.0, 1, "not refuted by this witness")):
        file.write_text(json.dumps({**HONEST, "claimed": claimed}))
        done = subprocess.run(
            [sys.executable, "-I", "-c", code, str(file)],
            capture_output=True, text=True, check=False, timeout=60, env=dict(os.environ),
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        assert done.stdout.startswith(words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no {", "file must be JSON"),
        ('{"a": NaN}', "finite, got NaN"),
        ('{"a": 1, "a": 2}', "unique"),
        ("[" * 100_000, "file must be JSON"),
        ("null", "witness must be object"),
    ],
)
def test_files_that_are_no_witness(text: str, message: str, tmp_path: Path, capsys) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    assert main([str(file)]) == 2
    assert message in capsys.readouterr().out
    assert main([str(tmp_path / "none.json")]) == 2


def test_normal_probabilities_are_those_of_flint() -> None:
    from audit_verify.laws import normal_masses

    ctx.prec = 200
    cells = normal_masses([arb(-60), arb(0), arb(60)], arb(0), arb(1))
    assert float(cells[0].rel_accuracy_bits()) > 150
    assert cells[0].str(10) == cells[3].str(10)
    assert sum(cells, arb(0)).contains(1)
