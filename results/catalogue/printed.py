"""Numbers and choices that the papers print, computed again."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from audit import exact
from audit.bounds.accounting import SubsampledGaussian, sampled_gaussian_renyi
from audit.bounds.random_allocation import (
    chi_square,
    least_noise_multiplier,
    total_variation_bound,
)
from audit.claims.candidates import KnownPairs
from audit.claims.claim import Claim, statement_of
from audit.claims.evidence import Evidence, LowerBound, witness_of
from audit.claims.witness import Witness
from audit.constructions import Construction, DriftedWalk
from audit.constructions.explicit import ExplicitPair, NormalVectors, VectorMixture
from audit.curves import GaussianCurve, Order
from audit.curves.quantities import ClaimedNumber, EpsilonAtDelta
from audit.dominating.matrix_mechanism import MatrixMechanism, Participation
from audit.dominating.random_allocation import random_allocation
from audit.isolation import search_in
from audit.mechanism import Batching, NoisySGD, Relation
from audit.scenario.folders import scenarios_folder
from papers.bsa24_statements import threshold_5_4

_AT22 = (
    "Altschuler, Talwar (2022), Privacy of Noisy Stochastic Gradient Descent: More Iterations "
    "without More Privacy Loss, "
)
_CL25 = "Chien, Li (2025), "
_SURVEY = "Boninsegna (2023), "
_BSA24 = "Bok, Su, Altschuler (2024), Shifted Interpolation for Differential Privacy, "
_FS25 = "Feldman, Shenfeld (2025), Privacy amplification by random allocation, "
_EVD26 = "Ertan, van Dijk (2026), Closed-Form Noise Calibration, "
_SUN24 = "Sun, Shen, Tao (2024), Convergent Differential Privacy Analysis, "
_LIANG26 = "Liang, Zhang, He, Wu, Xing (2026), An Improved Privacy and Utility Analysis, "
_DP_ACCOUNTING = "google/differential-privacy, "
_COLUMNS = ("composition", "Renyi", "ours")


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A printed number, and what it comes to.

    ``tolerance`` is half a unit of the last printed digit, or what a comparison allows. What is
    printed as an upper bound, ``upper``, may be larger than what was found; if it is refuted by a
    pair, ``witness`` holds the pair.
    """

    id: str
    citation: str
    statement: str
    expected: float
    found: float
    tolerance: float
    upper: bool = False
    witness: Witness | None = None

    @property
    def verdict(self) -> str:
        """The word: ``holds``, or ``refuted`` where the two differ by more than the tolerance.

        For an upper bound ``refuted`` where it is exceeded by more, else ``consistent``.
        """
        if self.upper:
            return "refuted" if self.found > self.expected + self.tolerance else "consistent"
        return "holds" if abs(self.found - self.expected) <= self.tolerance else "refuted"


def printed() -> tuple[Printed, ...]:
    """Return every printed number that is computed again; about a second."""
    return (
        *_table_1(),
        _pure_threshold(),
        _normal_tail(),
        _best_length(),
        _proper_choice(),
        _zeroed_record(),
        _first_time(),
        _noise_split(),
        _shifts_of_an_epoch(),
        _last_epoch(),
        _price_of_allocation(),
        _addition_over_epochs(),
        _chi_square_over_exact(),
        *_exact_noise(),
        _calibrated_epsilon(),
        _averaged_batches(),
        _proximal_factor(),
        _marginal_accounting(),
        _effective_sensitivity(),
    )


def _of_pair(
    one: Printed,
    pair: Construction | ExplicitPair,
    order: Order,
    delta: float,
    bracket: tuple[float, float],
) -> Printed:
    """Return a printed epsilon with its witness: a pair whose epsilon is in ``bracket``."""
    statement = statement_of(epsilon=one.expected, delta=delta)
    claim = Claim(id=one.id, mechanism=None, statement=statement, citation=one.citation, pair=pair)
    number, known = ClaimedNumber(EpsilonAtDelta(delta), one.expected), KnownPairs().one(pair)
    bound = LowerBound(number, *bracket, order, known, Evidence.EXACT)
    return dataclasses.replace(one, witness=witness_of(claim, bound))


def _table_1() -> list[Printed]:
    search_in(scenarios_folder())
    from papers import noisy_cgd

    found = []
    for epochs, numbers in noisy_cgd.TABLE_1.items():
        computed = noisy_cgd.epsilons(noisy_cgd.table_1_mechanism(epochs), noisy_cgd.DELTA)
        for column, expected, epsilon in zip(_COLUMNS, numbers, computed.values, strict=True):
            found.append(
                Printed(
                    id=f"bsa24.table_1.{column.lower()}_{epochs}",
                    citation=f"{_BSA24}Table 1",
                    statement=f"epsilon at delta = 1e-5 after {epochs} epochs, column {column}",
                    expected=expected,
                    found=epsilon,
                    tolerance=0.005,
                )
            )
    return found


def _pure_threshold() -> Printed:
    """Return the LD from which mu = 2 sqrt(LD) improves on (2LD, 0): 2 Phi(sqrt x) - 1 = tanh x."""
    return Printed(
        id="bsa24.section_5_2",
        citation=f"{_BSA24}section 5.2",
        statement="the LD from which Corollary 5.4 says more than (2LD, 0)",
        expected=0.677,
        found=threshold_5_4(),
        tolerance=1e-3,  # it is rounded up, so that the claim is safe
    )


def _normal_tail() -> Printed:
    return Printed(
        id="at22.appendix_a_4_tail",
        citation=f"{_AT22}Appendix A.4",
        statement="P[N(0, 1) >= -0.1/sqrt(0.001)]",
        expected=0.999993,
        found=float(ndtr(0.1 / math.sqrt(0.001))),
        tolerance=5e-7,
    )


def _best_length() -> Printed:
    """Check the formula for T~ after (B.3), in units where alpha D^2/(2 eta^2 sigma_1^2) = 100."""
    contraction, composed, cost = 0.9, 0.01, 100.0

    def bound(length: float) -> float:
        grown = math.expm1(-2 * length * math.log(contraction))
        return length * composed + cost * (1 - contraction**2) / grown

    def stationary(gap: float) -> float:
        beta = 2 * cost * gap * math.log(contraction) / composed
        root = (2 - beta + math.sqrt((2 - beta) ** 2 - 4)) / 2
        return -math.log(root) / (2 * math.log(contraction))

    least = bound(stationary(1 - contraction**2))
    return Printed(
        id="at22.b_3_best_length",
        citation=f"{_AT22}Appendix B.3, the formula for the best T~",
        statement="(B.3)'s second term at the printed T~, over its least value (c = .9)",
        expected=1.0,
        found=bound(stationary((1 - contraction) ** 2)) / least,
        tolerance=1e-9,
    )


def _proper_choice() -> Printed:
    """a_t proportional to eta_t against a_t proportional to eta_t^2, D = 1."""
    etas = np.arange(1, 1001) ** -0.5
    expected = etas.size / float(etas.sum()) ** 2
    return Printed(
        id="at22.eq_5_7_proper_choice",
        citation=f"{_AT22}section 5.3",
        statement=(
            "the least sum of a_t^2/eta_t^2 with sum a_t = D = 1, claimed to be at a_t "
            "proportional to eta_t (eta_t = t^(-1/2), 1000 steps)"
        ),
        expected=expected,
        found=1 / float((etas**2).sum()),
        tolerance=1e-9,
    )


def _zeroed_record() -> Printed:
    """Zero a record at L out, where the others are at -L: batch means differ by 2L over b."""
    mechanism = NoisySGD(
        steps=1,
        dataset_size=20,
        batch_size=2,
        step_size=0.1,
        noise_std=0.5,
        lipschitz=1.0,
        batching=Batching.WITHOUT_REPLACEMENT,
        relation=Relation.ZERO_OUT,
        diameter=4.0,
    )
    # one step moves by at most eta L = 0.1, which is how far the others drift
    others_at_minus_l = DriftedWalk(mechanism, drift=-0.1)
    curve = exact.curve(others_at_minus_l)
    brackets = {order: curve.epsilon_bracket(1e-5, order=order) for order in Order}
    order = max(Order, key=lambda order: brackets[order])
    found = Printed(
        id="bsa24.theorem_4_8.zeroed_record",
        citation=f"{_BSA24}Theorem 4.8",
        statement=(
            "epsilon at delta = 1e-5 after one step where L is taken for the change of a zeroed "
            "record (n = 20, b = 2, L/(b sigma) = 1, the others at -L): the bound needs 2L"
        ),
        expected=SubsampledGaussian(0.1, 1.0).epsilon(1e-5),
        found=brackets[order][0],
        tolerance=1e-9,
        upper=True,
    )
    return _of_pair(found, others_at_minus_l, order, 1e-5, brackets[order])


def _first_time() -> Printed:
    contraction, steps, tau = 0.9, 10, 0
    powers = contraction ** (steps - tau + 1) - contraction**steps
    return Printed(
        id="bsa24.theorem_4_9.tau_zero",
        citation=f"{_BSA24}Theorem 4.9, whose range of tau begins at 0",
        statement=(
            "the Gaussian parameter over 2 sqrt(2) L/(b sigma) at tau = 0 (t = 10, c = .9), beside "
            "the least that a Gaussian parameter can be"
        ),
        expected=powers / (1 - contraction),
        found=0.0,
        tolerance=0.0,
        upper=True,
    )


def _noise_split() -> Printed:
    """Give Z_t a share beta of the variance: its standard deviation is sqrt(beta) sigma."""
    rate, relative_noise, beta = 0.1, 1.0, 0.25

    def divergence(share: float) -> float:
        noise = relative_noise * share
        return float(sampled_gaussian_renyi(2.0, rate, noise, order=Order.REVERSE))

    return Printed(
        id="cl25.theorem_3_12.noise_split",
        citation=f"{_CL25}Theorem 3.12 and (69), which have beta_t where (68) has its square root",
        statement=(
            "S_2(.1, beta_t r) as an upper bound on the divergence of (68), which is "
            "S_2(.1, sqrt(beta_t) r) (r = 1, beta_t = 1/4): loose, harmless"
        ),
        expected=divergence(beta),
        found=divergence(math.sqrt(beta)),
        tolerance=0.0,
        upper=True,
    )


def _shifts_of_an_epoch() -> Printed:
    batches, place = 10, 10
    printed_shifts = [0.0 if batch == place else 1.0 for batch in range(1, batches + 1)]
    # the datasets differ in one record, so the maps differ where its batch is used
    shifts = [1.0 if batch == place else 0.0 for batch in range(1, batches + 1)]
    return Printed(
        id="survey.section_vi_a.shifts",
        citation=f"{_SURVEY}section VI.A, the cases of s_t",
        statement=(
            "the sum of s_t over an epoch of Q = 10 batches, in units of 2 eta L/B: the cases are "
            "swapped"
        ),
        expected=sum(printed_shifts),
        found=sum(shifts),
        tolerance=0.0,
    )


def _last_epoch() -> Printed:
    """Spread the last shift over the steps that remain, so that z_T = 0."""
    epochs, batches, place = 1, 10, 10
    steps_left = batches - place + 1
    return Printed(
        id="survey.section_vi_a.last_epoch",
        citation=f"{_SURVEY}section VI.A, the third case of a_t",
        statement=(
            "the sum of a_t from the last use of the record on, in units of 2 eta L/B, beside "
            "the 1 that z_T = 0 needs (T = 1, Q = 10, kappa = 10): T - kappa + 1 is printed where "
            "Q - kappa + 1 is meant"
        ),
        expected=steps_left / (epochs - place + 1),
        found=steps_left / (batches - place + 1),
        tolerance=0.0,
    )


def _price_of_allocation() -> Printed:
    """One over the probability that Poisson batches of rate 1/t use a record, for many steps."""
    return Printed(
        id="fs25.section_1_1",
        citation=f"{_FS25}section 1.1, on Theorem 4.3",
        statement="what one allocation costs over Poisson batches, at most (t to infinity)",
        expected=1.6,
        found=1 / -math.expm1(-1),
        tolerance=0.05,
    )


def _addition_over_epochs() -> Printed:
    """One constant for ten epochs, where each has its own (z = .5, t = 2)."""
    noise, length, epochs, delta = 0.5, 2, 10, 1e-5
    shift = (1 - 1 / length) / (2 * noise**2)
    of_means = GaussianCurve(math.sqrt(epochs / length) / noise).epsilon(delta)
    curve = random_allocation(noise, steps_per_epoch=length, steps=length * epochs)
    bracket = curve.epsilon_bracket(delta, order=Order.REVERSE)
    # an epoch: the record in one of two steps or in none
    steps = ((1.0, 0.0), (0.0, 1.0))
    added = VectorMixture((0.5, 0.5), steps), VectorMixture((1.0,), ((0.0, 0.0),))
    pair = NormalVectors(steps, noise, *added, times=epochs)
    found = Printed(
        id="fs25.code.addition",
        citation="code of Feldman and Shenfeld (2025), random_allocation 1.0.4, "
        "allocation_epsilon_direct_add",
        statement=(
            "epsilon of addition alone at delta = 1e-5 over 10 epochs of allocations to 1 of 2 "
            "steps (z = .5): (1 - 1/t)/(2 z^2) is added once, not for each epoch"
        ),
        expected=of_means + shift,
        found=bracket[0],
        tolerance=1e-9,
        upper=True,
    )
    return _of_pair(found, pair, Order.REVERSE, delta, bracket)


def _averaged_batches() -> Printed:
    """Share b/n of the divergence of a step, against two sampled normal laws (order 16)."""
    # X: mean +1/2 with probability 1/4, else 0; the others differ as one record of size 2C does
    found = sampled_gaussian_renyi(16.0, 0.25, 2.0, order=Order.FORWARD)
    return Printed(
        id="liang26.theorem_3_4.sampled",
        citation=f"{_LIANG26}Theorem 3.4, first term",
        statement=(
            "the Renyi divergence of order 16 of one step (n = 8, b = 2, C = 2, sigma = 4) against "
            "the mean over batches; here of the sampled Gaussian mechanism"
        ),
        expected=16 * 2 * 4 / (8 * 2 * 16),
        found=float(found),
        tolerance=1e-9,
        upper=True,
    )


def _proximal_factor() -> Printed:
    """Compare Table 1 with Theorem 4: the factor is under the root in one, not in the other."""
    weight, smoothness, rounds = 5.0, 1.0, 1
    ratio = (weight / (weight - smoothness)) ** rounds
    root = math.sqrt((2 * weight - smoothness) / smoothness)
    return Printed(
        id="sun24.table_1.noisy_fedprox",
        citation=f"{_SUN24}Theorem 4 beside one round of the Gaussian mechanism",
        statement=(
            "mu of one round over 2V/(sqrt(m) a sigma) for a = 5, M = 1; the factor "
            "(r^T-1)/(r^T+1) should be under the root"
        ),
        expected=root * (ratio - 1) / (ratio + 1),
        found=1.0,
        tolerance=1e-12,
        upper=True,
    )


def _marginal_accounting() -> Printed:
    """Compare with the pair of (f + Z_1, f/2 + Z_2), with unit noises and sensitivity 1."""
    column = ((1.0,), (0.5,))
    moved, still = (VectorMixture((1.0,), ((end,),)) for end in (1.0, 0.0))
    pair = NormalVectors(column, 1.0, moved, still)
    bracket = exact.curve(pair).epsilon_bracket(1e-5)
    found = Printed(
        id="dp_accounting.issue_428",
        citation=f"{_DP_ACCOUNTING}issue 428",
        statement=(
            "the epsilon of one output (delta = 1e-5, sigma = 1) as a bound on two outputs of "
            "which the second is half the first, with independent noises"
        ),
        expected=GaussianCurve(1.0).epsilon(1e-5),
        found=bracket[0],
        tolerance=1e-9,
        upper=True,
    )
    return _of_pair(found, pair, Order.FORWARD, 1e-5, bracket)


def _effective_sensitivity() -> Printed:
    """Take the column (1, 1/2) as a strategy: normal vectors differ by their distance alone."""
    matrix = MatrixMechanism(np.array([[1.0], [0.5]]), 1.0, Participation.single())
    return Printed(
        id="dp_accounting.pull_430",
        citation=f"{_DP_ACCOUNTING}pull request 430",
        statement=(
            "sensitivity times the norm of (1, c) is exact for outputs coupled by factors c with "
            "independent noises (c = 1/2)"
        ),
        expected=math.sqrt(1.25),
        found=matrix.sensitivity().high,
        tolerance=1e-9,
    )


def _chi_square_over_exact() -> Printed:
    noise, length = 1.5, 4096
    low, high = random_allocation(noise, steps_per_epoch=length, steps=length).delta_bracket(0.0)
    claimed = total_variation_bound(chi_square(noise, length, 1))
    return Printed(
        id="evd26.section_4",
        citation=f"{_EVD26}section 4, comparison with the closed form",
        statement=(
            "Theorem 3.3 over the exact total variation, the largest of ten settings with sigma "
            "1.5 or 2 (sigma = 1.5, M = 4096, one epoch)"
        ),
        expected=1.253413,
        found=2 * claimed / (low + high),
        tolerance=3e-4,  # width of the bracket
    )


def _exact_noise() -> list[Printed]:
    settings = ((100, 1, 0.6770), (1000, 1, 0.4520), (100, 100, 4.0400))
    found = []
    for length, epochs, noise in settings:
        pair = random_allocation(noise, steps_per_epoch=length, steps=length * epochs)
        low, high = pair.delta_bracket(0.0)
        found.append(
            Printed(
                id=f"evd26.table_7.{length}_{epochs}",
                citation=f"{_EVD26}Table 7, column exact sigma",
                statement=(
                    f"total variation at the printed sigma = {noise:.4f} (M = {length}, "
                    f"E = {epochs}), which is rounded to four decimals"
                ),
                expected=0.1,
                found=(low + high) / 2,
                tolerance=1e-4,
            )
        )
    return found


def _calibrated_epsilon() -> Printed:
    length, epochs = 100, 10
    noise = least_noise_multiplier(length, epochs, 0.1)
    pair = random_allocation(noise, steps_per_epoch=length, steps=length * epochs)
    return Printed(
        id="evd26.table_6.100_10",
        citation=f"{_EVD26}Table 6, column closed",
        statement=(
            "epsilon at delta = 1e-5 of the sigma of Corollary 3.4 for total variation .1 "
            "(M = 100, E = 10): the upper end of an accountant of accuracy .01"
        ),
        expected=0.727,
        found=pair.epsilon_bracket(1e-5)[0],
        tolerance=5e-4,
        upper=True,
    )
