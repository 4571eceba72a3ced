"""Both orders of the sampled Gaussian's Renyi divergence, against other ways to compute them."""

import math

import numpy as np
import pytest
from flint import arb, ctx
from scipy.special import gammaln, logsumexp

from audit import Order
from audit.bounds.accounting import sampled_gaussian_renyi
from audit.dominating.sampled_gaussian import mirrored_renyi, two_sided_log_moment

FORWARD, REVERSE = Order.FORWARD, Order.REVERSE


def test_reference_values():
    # n=2, b=1, L=1, sigma=1 of Altschuler and Talwar (2022): q = 1/2, noise 1/2
    assert sampled_gaussian_renyi(2.0, 0.5, 0.5, REVERSE) == pytest.approx(0.43851328, abs=5e-9)
    assert sampled_gaussian_renyi(2.0, 0.5, 0.5, FORWARD) == pytest.approx(2.66719609, abs=5e-9)


# adaptive quadrature with 30 digits, cut at every centre and around the turn (mpmath)
QUADRATURE = [
    (1.001, 0.01, 0.01, 906.122302720338, 0.0100503358535014),  # of which reverse is log(1/(1 - q))
    (1e4, 0.01, 1000.0, 5.00049746656e-7, 4.99950751477e-7),
    (10.825275815900318, 5.0365635402023637e-08, 0.9450581718827912, None, 2.83361938117536e-14),
    # 1 + 1e-16: what the mixture adds is lost unless nothing cancels
    (
        1.016136898283349,
        1.1888387624998852e-08,
        1.0025128831711085,
        1.2241018215758302e-16,
        1.2241017814156252e-16,
    ),
    (
        1.0000044418029073,
        9.327239788339234e-08,
        1.3490484365495694,
        3.1855832732229905e-15,
        3.1855830025056576e-15,
    ),
]


@pytest.mark.parametrize(("alpha", "rate", "sigma", "forward", "reverse"), QUADRATURE)
def test_against_quadrature_with_many_digits(alpha, rate, sigma, forward, reverse):
    # references have 12 digits, and exponents of mu^2 err by some units each
    room = 1e-11 + 16 * 2.0**-53 / sigma**2
    for order, exact in ((FORWARD, forward), (REVERSE, reverse)):
        if exact is not None:
            value = sampled_gaussian_renyi(alpha, rate, sigma, order)
            assert exact * (1 - 1e-11) <= value <= exact * (1 + room)


@pytest.mark.parametrize("alpha", [2, 3, 17, 256])
@pytest.mark.parametrize(("rate", "sigma"), [(0.3, 1.0), (1e-3, 0.4), (0.9, 5.0)])
def test_whole_orders_against_the_binomial_sum(alpha, rate, sigma):
    """Mironov, Talwar and Zhang (2019), section 3.3."""
    k = np.arange(alpha + 1)
    terms = gammaln(alpha + 1) - gammaln(k + 1) - gammaln(alpha - k + 1)
    terms = terms + (alpha - k) * math.log1p(-rate) + k * math.log(rate)
    total = logsumexp(terms + k * (k - 1) / (2 * sigma**2)) / (alpha - 1)
    value = sampled_gaussian_renyi(float(alpha), rate, sigma, FORWARD)
    assert value == pytest.approx(total, rel=1e-11)


def test_limits():
    orders = np.array([1.001, 1.5, 40.0, 1e4])
    for sigma in (0.01, 1.0, 1000.0):
        whole = orders / (2 * sigma**2)
        for order in Order:
            np.testing.assert_allclose(sampled_gaussian_renyi(orders, 1.0, sigma, order), whole)
            assert np.all(sampled_gaussian_renyi(orders, 0.0, sigma, order) == 0)
    # small shifts: alpha q^2 (e^(1/sigma^2) - 1)/2 in both orders
    for order in Order:
        small = sampled_gaussian_renyi(1.001, 1e-8, 1000.0, order)
        assert small == pytest.approx(1.001e-16 * math.expm1(1e-6) / 2, rel=1e-6)


def test_extremes_are_finite_and_ordered():
    orders = np.concatenate([1 + np.geomspace(1e-9, 1, 7), np.geomspace(3, 1e4, 7)])
    for rate in (1e-8, 1e-3, 0.5, 1 - 1e-9, 1.0):
        for sigma in (1e-3, 0.01, 1.0, 1000.0, 1e6):
            forward = sampled_gaussian_renyi(orders, rate, sigma, FORWARD)
            reverse = sampled_gaussian_renyi(orders, rate, sigma, REVERSE)
            for values in (forward, reverse):
                assert np.all(np.isfinite(values))
                assert np.all(values >= 0)
                assert np.all(values <= orders / (2 * sigma**2) * (1 + 1e-12))
                assert np.all(np.diff(values) >= -1e-9 * values[1:])
            # Mironov, Talwar and Zhang (2019), Theorem 5
            assert np.all(reverse <= forward * (1 + 1e-9))
            both = sampled_gaussian_renyi(orders, rate, sigma)
            np.testing.assert_allclose(both, forward, rtol=1e-9)


def test_shapes_and_refusals():
    assert isinstance(sampled_gaussian_renyi(2.0, 0.1, 1.0), float)
    assert sampled_gaussian_renyi(np.full((2, 3), 2.0), 0.1, 1.0).shape == (2, 3)
    with pytest.raises(ValueError, match=r"alpha must be in \(1, inf\), got 1.0"):
        sampled_gaussian_renyi(1.0, 0.1, 1.0)
    with pytest.raises(ValueError, match=r"rate must be in \[0, 1\], got 1.5"):
        sampled_gaussian_renyi(2.0, 1.5, 1.0)
    with pytest.raises(ValueError, match="sigma must be a positive finite number, got 0"):
        sampled_gaussian_renyi(2.0, 0.5, 0)
    with pytest.raises(ValueError, match="order must be an Order, got 3"):
        sampled_gaussian_renyi(2.0, 0.5, 1.0, 3)


@pytest.mark.parametrize("order", list(Order))
def test_many_pairs_at_once_are_the_single_ones(order):
    random = np.random.default_rng(4)
    orders, sigmas = 1 + 10 ** random.uniform(-4, 4, 150), 10 ** random.uniform(-3, 3, 150)
    together = sampled_gaussian_renyi(orders, 0.03, sigmas, order)
    for place in range(0, 150, 7):
        alone = sampled_gaussian_renyi(float(orders[place]), 0.03, float(sigmas[place]), order)
        assert together[place] == pytest.approx(alone, rel=1e-12)
    table = sampled_gaussian_renyi(orders[:3, None], 0.03, sigmas[:2], order)
    assert table.shape == (3, 2)
    np.testing.assert_allclose(np.diag(table), together[:2], rtol=1e-12)
    with pytest.raises(ValueError, match=r"sigma must be in \(0, inf\), got -1.0"):
        sampled_gaussian_renyi(2.0, 0.5, np.array([1.0, -1.0]))


@pytest.mark.parametrize("rate", [1e-8, 0.01, 0.5])
def test_parts_far_apart(rate):
    orders, mu = 1 + np.geomspace(1e-6, 1e4, 30), 900.0
    # the two parts of the mixture do not overlap
    gap, whole = orders - 1, orders * mu / 2 * mu
    exponent = gap * (math.log(rate) + whole)
    stays = (1 - rate) * np.expm1(gap * math.log1p(-rate))
    near = np.log1p(stays + rate * np.expm1(np.minimum(exponent, 30.0)))
    far = np.logaddexp(math.log(rate) + exponent, orders * math.log1p(-rate))
    apart = np.minimum(np.where(exponent < 30, near, far) / gap, whole)
    found = sampled_gaussian_renyi(orders, rate, 1 / mu, FORWARD)
    np.testing.assert_allclose(found, apart, rtol=2e-9)
    for mu in (900.0, 1e3, 4e4, 1e9):
        values = sampled_gaussian_renyi(orders, rate, 1 / mu, REVERSE)
        np.testing.assert_allclose(values, -math.log1p(-rate), rtol=1e-9)
    # never 0 by loss of digits, however far: q e^x alone makes up the moment
    for order, sigma in ((1e4, 9e-6), (1e4, 1e-9), (1e12, 1.0), (1e20, 1e3)):
        mu = 1 / sigma
        alone = order * mu / 2 * mu + order / (order - 1) * math.log(rate)
        value = sampled_gaussian_renyi(order, rate, sigma, FORWARD)
        assert value == pytest.approx(alone, rel=1e-9)


def truth(kind, alpha, rate, mu):
    """The log-moment with 30 digits, by trapezoids far finer than the widths of all parts.

    The mirrored one begins within the laws, where Gauss's rule of 20 nodes takes their place.
    """
    with ctx.workprec(140):
        a, q, mu = arb(alpha), arb(rate), arb(mu)
        k = 1 - a if kind == "reverse" else a
        width = float(min(arb(1) / 5, 1 / mu / 8))
        low = float(mu) / 2 if kind == "mirrored" else float(min(k * mu, arb(0), -mu)) - 13
        count = int((float(max(2 * mu, k * mu)) + 13 - low) / width)

        def excess(x):
            up, down = ((s * mu * x - mu**2 / 2).exp() for s in (1, -1))
            p, other = 1 - q + q * up, 1 - q + q * down if kind == "two-sided" else arb(1)
            w = p / other
            powers = (a, 1 - a) if kind == "mirrored" else (k,)
            moment = sum((w**j - 1 - j * (w - 1) for j in powers), arb(0))
            return other * moment * (-x * x / 2).exp() / (2 * arb.pi()).sqrt()

        if kind == "mirrored":
            rule = [arb.legendre_p_root(20, i, weight=True) for i in range(20)]
            middles = [low + width * (4 * j + 2) for j in range(count // 4 + 1)]
            terms = [2 * w * excess(x + 2 * width * t) for x in middles for t, w in rule]
        else:
            terms = [excess(low + width * arb(j)) for j in range(count)]
        return float((width * sum(terms, arb(0))).log1p().mid())


KINDS = {
    "forward": lambda a, q, mu: (a - 1) * sampled_gaussian_renyi(a, q, 1 / mu, FORWARD),
    "reverse": lambda a, q, mu: (a - 1) * sampled_gaussian_renyi(a, q, 1 / mu, REVERSE),
    "mirrored": lambda a, q, mu: (a - 1) * float(mirrored_renyi(np.array([a]), q, mu)[0]),
    "two-sided": two_sided_log_moment,
}


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_are_above_the_truth_by_their_rounding(kind):
    random = np.random.default_rng(7)
    cases = [(1.5, 0.3, 2.0), (71.3, 0.8, 0.02), (2.0, 1e-9, 1.0), (1.02, 0.999, 2.5)]
    cases += [(1.25, 8e-4, 6.5), (1.05, 5e-6, 5.2)]  # zeros of P near the panels of the peak
    cases += [
        (1 + 10 ** random.uniform(-2, 1.0), 10 ** random.uniform(-6, -0.01), 10**power)
        for power in random.uniform(-1.5, 0.3, 2)
    ]
    for alpha, rate, mu in cases:
        exact = truth(kind, alpha, rate, mu)
        found = KINDS[kind](alpha, rate, mu)
        assert exact <= found <= exact * (1 + 1e-10), (alpha, rate, mu)
