import dataclasses
import subprocess
import sys

import pytest

from audit import Batching, NoisySGD, bounds
from audit.bounds.registry import Catalogue, Status
from audit.curves import GaussianCurve

M = NoisySGD(
    steps=1000,
    dataset_size=20,
    batch_size=20,
    step_size=0.1,
    noise_std=0.5,
    lipschitz=1.0,
    smoothness=1.0,
    diameter=1.0,
)


def test_entries_say_what_they_are():
    assert set(bounds.CATALOGUE) == {
        "at22.b_1",
        "bsa24.theorem_4_1",
        "bsa24.theorem_4_3",
        "bsa24.theorem_4_8",
        "bsa24.theorem_4_10",
    }
    for id, entry in bounds.CATALOGUE.items():
        assert entry.id == id
        assert entry.status is Status.AS_PRINTED
        assert "\n" not in entry.statement
        assert entry.cite.place in str(entry.cite)
        assert all(assumption.name for assumption in entry.assumptions)
    assert bounds.CATALOGUE["bsa24.theorem_4_10"].options == ("tau",)
    assert bounds.CATALOGUE["bsa24.theorem_4_1"].options == ()


def test_catalogue_cannot_be_changed():
    with pytest.raises(TypeError):
        bounds.CATALOGUE["new"] = bounds.CATALOGUE["at22.b_1"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        bounds.CATALOGUE["at22.b_1"].status = Status.REFUTED


def test_unknown_ids_and_options_end_in_one_line():
    with pytest.raises(ValueError, match=r"got 'bsa24.theorem_43'; did you mean bsa24.theorem_4_3"):
        bounds.evaluate("bsa24.theorem_43", M)
    with pytest.raises(ValueError, match=r"got 'x'; see audit.bounds.CATALOGUE"):
        bounds.evaluate("x", M)
    with pytest.raises(ValueError, match=r"theorem_4_10 has no option 'index'; its options: tau"):
        bounds.evaluate("bsa24.theorem_4_10", M, index=3)
    with pytest.raises(ValueError, match=r"theorem_4_1 has no option 'tau'; its options: none"):
        bounds.evaluate("bsa24.theorem_4_1", M, tau=3)
    with pytest.raises(ValueError, match="mechanism must be a NoisySGD, got 3"):
        bounds.evaluate("bsa24.theorem_4_1", 3)


def test_applicable_and_best():
    assert bounds.applicable(M) == ("at22.b_1", "bsa24.theorem_4_1", "bsa24.theorem_4_3")
    best = bounds.best(M, delta=1e-5)
    assert best.id == "bsa24.theorem_4_3"
    assert best.epsilon == best.curve.epsilon(1e-5) == min(best.compared.values())
    assert set(best.compared) == set(bounds.applicable(M))
    short = bounds.best(dataclasses.replace(M, steps=3), delta=1e-5)
    assert short.id == "bsa24.theorem_4_1"


def test_best_skips_what_is_not_sound():
    claim = dataclasses.replace(
        bounds.CATALOGUE["bsa24.theorem_4_1"],
        id="wrong",
        status=Status.REFUTED,
        function=lambda mechanism: GaussianCurve(0.0),
    )
    catalogue = Catalogue((claim, bounds.CATALOGUE["bsa24.theorem_4_1"]))
    assert catalogue.applicable(M) == ("wrong", "bsa24.theorem_4_1")
    assert catalogue.best(M, delta=1e-5).id == "bsa24.theorem_4_1"
    assert [s for s in Status if s.sound] == [Status.AS_PRINTED, Status.CORRECTED]
    with pytest.raises(ValueError, match="got 'wrong' twice"):
        Catalogue((claim, claim))


def test_best_says_why_nothing_applies():
    poisson = dataclasses.replace(M, batch_size=2, batching=Batching.POISSON)
    assert bounds.applicable(poisson) == ()
    with pytest.raises(bounds.NotApplicable, match=r"no sound bound applies: at22\.b_1 needs full"):
        bounds.best(poisson, delta=1e-5)
    with pytest.raises(ValueError, match="delta must be in"):
        bounds.best(M, delta=0.0)


def test_import_leaves_slow_libraries_out():
    code = (
        "import sys, audit.bounds; "
        "print([m for m in ('dp_accounting', 'scipy.signal', 'scipy.stats') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
