"""Files of found pairs."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from audit import Batching
from audit.claims import Claim, Verdict
from audit.claims.claim import statement_of
from audit.claims.judge import judge
from audit.constructions import (
    BiasedWalk,
    Construction,
    GradientPair,
    Process,
    construction,
    registry,
)
from audit.search import Epsilon, RenyiDivergence, optimizer, read_found, write_found
from audit.search.evaluation import Clock
from tests.mechanisms import noisy_sgd
from tests.search.cases import DELTA, mechanism, search


def test_files_round_trip(tmp_path):
    found = search(mechanism(1.0, 0.2, 10), 40)
    path = tmp_path / "found" / "pair.yaml"
    write_found(found, Epsilon(DELTA), path)
    stored = read_found(path)
    assert stored.construction == found.construction
    assert stored.bracket == found.bracket == stored.recomputed()
    assert [p.name for p in path.parent.iterdir()] == ["pair.yaml"]
    cyclic = noisy_sgd(
        steps=4,
        dataset_size=4,
        step_size=(0.5, 0.4, 0.3, 0.2),
        diameter=2.0,
        batching=Batching.CYCLIC,
    )
    other = search(cyclic, 60, delta=None, objective=RenyiDivergence(2.0))
    write_found(other, RenyiDivergence(2.0), path)
    assert read_found(path).construction == other.construction


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda text: text.replace("lipschitz: 20", "lipschitz: 19"), r"record in \[-19, 19\]"),
        (lambda text: text.replace("GradientPair", "Construction"), r"pair\.kind must be one of"),
        (lambda text: text.replace("pair:", "couple:"), "couple must be left out of a FoundFile"),
        (
            lambda text: text.replace("epsilon_at_delta", "epsilon"),
            r"objective\.epsilon must be left",
        ),
        (lambda text: text + "  - [", "expected"),
    ],
)
def test_a_broken_file_is_named(tmp_path, edit, message):
    found = search(mechanism(1.0, 0.2, 10), 40)
    path = tmp_path / "pair.yaml"
    write_found(found, Epsilon(DELTA), path)
    path.write_text(edit(path.read_text()))
    with pytest.raises(ValueError, match=rf"pair\.yaml must be a found pair: .*{message}"):
        read_found(path)


def test_shipped_pairs_join_the_judge():
    m = dataclasses.replace(mechanism(1.0, 0.05, 100), lipschitz=1.25)  # to the last digit
    # the drifted walks that the judge tries by itself certify less
    claim = Claim(id="x", mechanism=m, statement=statement_of(epsilon=1.886, delta=DELTA))
    judged = judge(claim, error=0.01)
    assert judged.verdict is Verdict.REFUTED
    assert judged.certified == pytest.approx(1.88677, abs=1e-5)


def test_shipped_pairs_hold():
    folder = Path(__file__).parents[2] / "scenarios" / "found"
    files = sorted(folder.glob("*.yaml"))
    assert files
    for path in files:
        stored = read_found(path)
        low, high = stored.recomputed()
        assert isinstance(stored.construction, GradientPair)
        assert math.isclose(low, stored.bracket[0], rel_tol=1e-8)
        assert high >= stored.bracket[0]


@dataclass(frozen=True)
class Elsewhere(Construction):
    """Processes on a domain that is not the mechanism's."""

    citation: ClassVar[str] = "a test"

    def processes(self) -> tuple[Process, Process]:
        wider = dataclasses.replace(self.mechanism, diameter=2.0)
        return BiasedWalk(wider).processes()


def test_processes_that_break_the_mechanism_are_neither_read_nor_certified(tmp_path, monkeypatch):
    evaluator = optimizer._Evaluator(Epsilon(DELTA), Clock(), 10, None, 0)
    evaluator._keep(1.0, Elsewhere(mechanism(1.0, 0.2, 10)))
    assert evaluator.certified() is None
    assert evaluator.refusal.startswith("the domain must be [-0.5, 0.5], got -1")
    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))
    construction(Elsewhere)
    path = tmp_path / "pair.yaml"
    path.write_text(
        "mechanism: {steps: 200, dataset_size: 4, batch_size: 1, step_size: 0.1, noise_std: 1.0, "
        "lipschitz: 1.0, diameter: 1.0, batching: WITHOUT_REPLACEMENT}\n"
        "pair: {kind: Elsewhere}\nobjective: {epsilon_at_delta: 1.0e-5}\n"
        "bracket: [1.0, 1.0]\nfound_by: {version: x, seed: 0, evaluations: 1}\n"
    )
    with pytest.raises(ValueError, match=r"pair\.yaml must be a found pair: the domain must be"):
        read_found(path)
