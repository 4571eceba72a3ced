"""Numbers of the catalogue that no other test checks, and the status of each entry."""

import math

import pytest
from scipy.stats import norm

from audit import Batching, bounds, exact
from audit.bounds import Status
from audit.constructions import GradientPair, PiecewiseLinear, TwoSidedWalk
from audit.curves import GaussianCurve
from tests.mechanisms import noisy_sgd


def test_the_repulsive_kink_of_the_catalogue():
    """Order 2, D = 1, s = .08, step_std = .2, T = 200: 2.23 where linear losses have 1.46."""
    m = noisy_sgd(steps=200, dataset_size=25, noise_std=0.2, convex=False)
    kink = GradientPair(
        m,
        others=PiecewiseLinear((-0.4, 0.4), (0.16, -0.16), (0.0, 0.0)),
        record=PiecewiseLinear.constant(-1.0),
        record_prime=PiecewiseLinear.constant(1.0),
    )
    low, high = exact.curve(kink).renyi_bracket(2.0)
    assert low == pytest.approx(2.23, abs=5e-3)
    assert high == pytest.approx(2.23, abs=5e-3)
    assert exact.curve(TwoSidedWalk(m)).renyi(2.0) == pytest.approx(1.46, abs=5e-3)


def test_claims_for_one_pass_at_a_quarter_of_the_noise():
    """65.3 is the last step alone, as a Gaussian; Theorem 23 by its Renyi conversion is 68.6."""
    m = noisy_sgd(
        steps=10, dataset_size=10, noise_std=0.25, batching=Batching.CYCLIC, diameter=None
    )
    gaussian = bounds.evaluate("fmtt18.lemma_27_corrected", m).epsilon(1e-5)
    assert gaussian == pytest.approx(65.3, abs=0.05)
    assert bounds.evaluate("fmtt18.theorem_23", m).epsilon(1e-5) == pytest.approx(68.6, abs=0.05)


def test_constants_of_the_lower_bound_proof():
    """Slips of appendix A.4: Phi(.1/sqrt(.001)) is .99922; the claim is .005625."""
    assert norm.cdf(0.1 / math.sqrt(0.001)) == pytest.approx(0.99922, abs=5e-6)
    for value, times in ((380.418, 68_000), (128.731, 23_000)):
        assert value / 0.005625 == pytest.approx(times, rel=0.01)
    assert 7500 * math.log(1 / (1 - 0.1)) == pytest.approx(790.2, abs=0.05)


def test_composition_allows_1_99_to_the_drifted_walk():
    assert GaussianCurve(0.0025 / 0.05 * math.sqrt(100)).epsilon(1e-5) == pytest.approx(
        1.99, abs=5e-3
    )


# The catalogue's ids, by paper, with what is known of each.
HOLDS = {
    "fmtt18": "theorem_22 theorem_23 theorem_24 lemma_25 theorem_35",
    "at22": (
        "proposition_2_17 proposition_3_2 proposition_5_4 lemma_2_12 b_1 theorem_5_6 conversion"
    ),
    "cl25": "theorem_3_1 theorem_3_7 theorem_a_1 corollary_a_3 corollary_a_3_reshuffled",
    "survey": (
        "gaussian_mechanism advanced_composition subsampling moments_accountant rdp_composition "
        "sampled_gaussian_mtz19 subsampled_rdp_wbk19 theorem_vii_1 theorem_vii_2"
    ),
    "bsa24": (
        "theorem_3_3 theorem_4_1 theorem_4_2 theorem_4_3 theorem_4_4 theorem_4_5 theorem_4_6 "
        "theorem_4_8 theorem_4_9 theorem_4_10 proposition_5_1 corollary_5_2 corollary_5_4 "
        "mcsherry_talwar table_1_renyi"
    ),
    "kong24": "theorem_2_2",
    "evd26": "theorem_3_3",
    "fs25": "theorem_4_1 theorem_4_3 theorem_4_4",
}
REFUTED = {
    "fmtt18": (
        "theorem_1 theorem_26 lemma_27 theorem_29 theorem_30 corollary_31 theorem_32 corollary_34"
    ),
    "at22": "b_2 b_3",
    "cl25": "theorem_3_12 output_perturbation",
    "survey": (
        "advanced_composition_shortcut section_iii_a section_vii_a section_vi_a section_vi_a_last "
        "theorem_vii_2_literal"
    ),
    "sun24": "theorem_3_a theorem_3_b theorem_4",
    "liang26": "theorem_3_4 theorem_3_4_saturated",
}
CORRECTED = {
    "fmtt18": (
        "theorem_26_corrected theorem_26_sharper lemma_27_corrected theorem_29_corrected "
        "theorem_30_corrected corollary_31_corrected theorem_32_corrected corollary_34_corrected"
    ),
    "at22": "sampled_gaussian eq_5_4",
    "cl25": "theorem_3_1_gaussian output_perturbation_corrected",
    "survey": "section_vi_a_corrected",
    "liang26": "theorem_3_4_corrected",
}
UNPROVEN = {
    "at22": "b_2_both_orders b_3_both_orders eq_5_7 eq_5_7_corrected",
    "cl25": "theorem_3_12_both_orders",
}
ASYMPTOTIC = {
    "at22": "theorem_3_1 theorem_5_1 eq_5_5 eq_1_3 example_5_8",
    "evd26": "theorem_3_5",
}


@pytest.mark.parametrize(
    ("status", "ids"),
    [
        (Status.AS_PRINTED, HOLDS),
        (Status.REFUTED, REFUTED),
        (Status.CORRECTED, CORRECTED),
        (Status.UNPROVEN, UNPROVEN),
        (Status.ASYMPTOTIC, ASYMPTOTIC),
    ],
)
def test_every_statement_has_its_entry_and_status(status, ids):
    named = {f"{paper}.{name}" for paper, names in ids.items() for name in names.split()}
    found = {id for id, entry in bounds.CATALOGUE.items() if entry.status is status}
    assert named == {id for id in found if not id.startswith(("own.", "accounting."))}
