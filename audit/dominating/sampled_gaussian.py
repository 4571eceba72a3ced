"""Upper bounds on Renyi divergences of sampled Gaussian steps: a quadrature with a proven error.

With v = e^(mu x - mu^2/2), x ~ N(0, 1) and mu = 1/sigma, the laws of a step have the densities
(with respect to the normal density phi)

    sampled:    P = 1 - q + q v against Q = 1, the orders alpha and, for (Q, P), 1 - alpha;
    mirrored:   the same where x > mu/2, and its mirror image: the worst pair of a batch without
                replacement, whose moment has both orders of that half-line;
    two-sided:  P against Q = 1 - q + q e^(-mu x - mu^2/2).

Altschuler and Talwar (2022, Definition 2.10) print D(Q || P), Mironov, Talwar and Zhang (2019,
Section 3.3) compute D(P || Q): a mechanism is Renyi private only if both are bounded.

A moment of power k is 1 + the integral of F = Q g(P/Q) phi, g(w) = w^k - 1 - k (w - 1) >= 0, so
that nothing cancels. In the integral form of Taylor's theorem F is

    (P - Q)^2 Q^(1-k) R phi,  R = k (k-1) times the integral over u in [0, 1] of
                              (1-u) ((1-u) Q + u P)^(k-2).

At x + it, |t| <= b, the arguments of v and its mirror image turn by at most c = mu b. Then

- |phi| grows by e^(b^2/2) at most; |P - Q|^2 by q^2 v min(c^2, 4), of two-sided pairs by
  4 q^2 e^(-mu^2) min(c^2, 1): both follow from |v e^ic - 1|^2 = (v-1)^2 + 2 v (1 - cos c);
- sums of positive numbers and of their multiples of v do not grow, and shrink by cos(c/2) at most,
  between P and Q of a two-sided pair by cos(c); or by 1 - 2 s, s < 1/2 the share of q v in P.

So F is bounded on an ellipse by values at the ends of its real part: factors are monotone, and R is
log-convex for k >= 2, below a chord whose product with phi has a known maximum. The error of a
Gauss-Legendre rule on a panel of half-width H is (H 64/15) max |F| rho^(-2n)/(1 - rho^-2)
(Trefethen 2008, Theorem 4.5). Where both parts of P and of Q are apart, without zeros of either,
|F| <= (|P|^k |Q|^(1-k) + |k-1| |Q| + |k| |P|) |phi| is the better bound. Panels are cut until the
error is negligible, or the whole panel is; what is left out is counted. By Minkowski's inequality
D(P || Q) <= alpha/(alpha-1) log(1 - q + q e^((alpha-1) mu^2/2)), the bound for large mu.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from audit import validate
from audit.curves import Order
from audit.numerics.arrays import Array
from audit.numerics.panels import gauss_legendre

Index = NDArray[np.intp]

_UNIT = 2.0**-53
_NODES, _RHO = 16, 6.0
_A, _B = (_RHO + 1 / _RHO) / 2, (_RHO - 1 / _RHO) / 2  # half-axes over half of a panel's width
_LOG_ERROR = math.log(64 / 15) - 2 * _NODES * math.log(_RHO) - math.log1p(-(_RHO**-2))
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
_EDGES = np.arange(-14.0, 15.0, 2.0)  # edges around the centres of normals
_LOG_FAR = 90.0  # log of what may lie beyond the panels, about
_LOG_NEGLIGIBLE, _LOG_SMALL = 45.0, 33.0
_ROUNDS, _MAX_HALF = 60, 4.0  # halvings, and half of the widest panel
_MAX_CENTRE, _MAX_POWER = 1e4, 1e6  # centres and powers beyond which too many digits are lost
_SERIES = tuple(range(15, 2, -1))
# Units of a value: cancellation of logarithms beside those that grow with them, and the series'
# remainder, at most 20.
_UNITS = 600
_PAIRS_PER_CHUNK = 128  # pairs of a power and a mu at a time, which bounds the memory


def sampled_gaussian_renyi(
    alpha: ArrayLike, rate: float, sigma: ArrayLike, order: Order | None = None
) -> float | Array:
    """Return upper bounds on the Renyi divergence of the sampled Gaussian mechanism.

    By default of the larger one of both orders. Within 1e-10 of it, relatively, for sigma from 0.01
    to 1000, orders from 1.001 to 1e4, and rates from 1e-8 to 1 - 1e-7, which may be rounded; and 1.
    """
    orders = validate.array_in(1, np.inf, open_ends=True, alpha=alpha)
    validate.closed_unit(rate=rate)
    if np.ndim(sigma) == 0:
        validate.positive(sigma=sigma)
    noises = validate.array_in(0, np.inf, open_ends=True, sigma=sigma)
    asked = (Order.FORWARD, Order.REVERSE) if order is None else (order,)
    for one in asked:
        validate.instance(Order, order=one)
    orders, noises = np.broadcast_arrays(orders, noises)
    pairs = orders.ravel(), 1 / noises.ravel() * (1 + 2 * _UNIT)
    values = np.max([_divergences(*pairs, float(rate), one) for one in asked], axis=0)
    return float(values[0]) if orders.ndim == 0 else np.reshape(values, orders.shape)


def _divergences(alpha: Array, mu: Array, rate: float, order: Order) -> Array:
    with np.errstate(over="ignore"):
        unsampled = alpha * mu / 2 * mu
    if rate in (0, 1):
        return unsampled if rate else np.zeros_like(unsampled)
    unsampled *= 1 + 8 * _UNIT
    rate = _rounded_up(rate)
    forward = order is Order.FORWARD
    log_mean = _log_means(alpha if forward else 1 - alpha, mu, rate)
    least = _minkowski(alpha, mu, rate) if forward else -math.log1p(-rate) * (1 + 4 * _UNIT)
    # quasi-convexity, and P >= 1 - q
    value = np.logaddexp(0.0, log_mean) / (alpha - 1) * (1 + 8 * _UNIT)
    return np.minimum(np.minimum(value, unsampled), least)


def _rounded_up(rate: float) -> float:
    """Return a rate that is above the quotient it was rounded from; divergences rise with it.

    Near 1 the rounding counts: in 1 - q, and so in the largest loss.
    """
    return math.nextafter(rate, 1.0) if 0.5 < rate < 1 - _UNIT else rate


def mirrored_renyi(alpha: Array, rate: float, mu: float) -> Array:
    """Return upper bounds on the Renyi divergences of the mirrored pair, equal in both orders."""
    unsampled = alpha * mu / 2 * mu
    if rate == 1:
        return unsampled
    mus = np.full(alpha.shape, mu)
    halves = [_log_means(power, mus, rate, low=mu / 2) for power in (alpha, 1 - alpha)]
    value = np.logaddexp(0.0, np.logaddexp(*halves)) / (alpha - 1) * (1 + 8 * _UNIT)
    return np.minimum(value, unsampled)  # its delta is at most that of all records


def two_sided_log_moment(order: float, rate: float, mu: float) -> float:
    """Return an upper bound on the log-moment of a two-sided pair, for an order above 1."""
    one = np.array([order]), np.array([mu])
    log_mean = _log_means(*one, _rounded_up(rate), two_sided=True)
    unsampled = 2 * order * (order - 1) * mu**2
    return min(float(np.logaddexp(0.0, log_mean[0])), unsampled)


def _minkowski(alpha: Array, mu: Array, rate: float) -> Array:
    with np.errstate(over="ignore"):
        exponent = (alpha - 1) * mu / 2 * mu
        near = np.log1p(rate * np.expm1(np.minimum(exponent, 1.0)))
        rest = np.log1p((1 - rate) / rate * np.exp(-exponent))
        far = math.log(rate) + rest + exponent
        log_norm = np.where(exponent < 1, near, far)
        slip = 8 * _UNIT * (1 + exponent + abs(math.log(rate)))
        return np.asarray(alpha / (alpha - 1) * np.where(exponent < 1, log_norm, log_norm + slip))


def _log_means(
    power: Array, mu: Array, rate: float, low: float = -math.inf, *, two_sided: bool = False
) -> Array:
    """Return upper bounds on the logs of the integrals of F from ``low`` on."""
    result = np.full(mu.shape, np.inf)
    left = np.flatnonzero((np.maximum(power, 1.0) * mu < _MAX_CENTRE) & (power > -_MAX_POWER))
    for start in range(0, left.size, _PAIRS_PER_CHUNK):
        part = left[start : start + _PAIRS_PER_CHUNK]
        result[part] = _Excess(power[part], mu[part], rate, low, two_sided).log_means()
    return result


@dataclass(frozen=True)
class _Excess:
    """Integrals of F for many powers and shifts at once, all powers above 1 or all below 0.

    Panels of all pairs lie in flat arrays; ``owner`` is the pair of each.
    """

    power: Array
    mu: Array
    rate: float
    low: float
    two_sided: bool

    def log_means(self) -> Array:
        """Return upper bounds on the logs of the integrals."""
        edges = self._edges()
        pairs = np.arange(self.mu.size)
        top = self._values(edges, pairs)[0].max(axis=1)
        low, high = edges[:, :-1].ravel(), edges[:, 1:].ravel()
        owner = np.repeat(pairs, edges.shape[1] - 1)
        wide = low < high
        low, high, owner = low[wide], high[wide], owner[wide]
        kept, left_out = [], [(pairs, self._log_tails(edges[:, 0], edges[:, -1]))]
        for number in range(_ROUNDS):
            half = 0.5 * (high - low)
            middle = low + half
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                error = np.log(half) + _LOG_ERROR
                error += self._log_largest(middle, _A * half, _B * half, owner)
                fine = (error < top[owner] - _LOG_SMALL) & (half <= _MAX_HALF)
                rest = np.flatnonzero(~fine)
                middles, halves, owners = middle[rest], half[rest], owner[rest]
                most = np.log(2 * halves) + self._log_largest(middles, halves, 0 * halves, owners)
            none = most < top[owners] - _LOG_NEGLIGIBLE
            none |= number == _ROUNDS - 1
            kept.append((middle[fine], half[fine], owner[fine]))
            left_out += [(owner[fine], error[fine]), (owners[none], most[none])]
            low, high = low[rest][~none], high[rest][~none]
            middle, owner = middles[~none], owners[~none]
            if not owner.size:
                break
            np.maximum.at(top, owner, self._values(middle[:, None], owner)[0][:, 0])
            low, high = np.append(low, middle), np.append(middle, high)
            owner = np.append(owner, owner)
        middle, half, owner = map(np.concatenate, zip(*kept, strict=True))
        total = self._sums(middle, half, owner, top)
        for owner, logs in left_out:
            total += np.bincount(owner, np.exp(logs - top[owner]), pairs.size)
        found = top + np.log(total) + 8 * _UNIT * (1 + np.abs(top))
        # no bound if the search failed
        return np.asarray(np.where(np.isfinite(found), found, np.inf))

    def _sums(self, middle: Array, half: Array, owner: Index, top: Array) -> Array:
        """Return the sums of the rules, over e^top, with their rounding."""
        nodes, weights = gauss_legendre(_NODES)
        values, errors = self._values(middle[:, None] + half[:, None] * nodes, owner)
        parts = half * (np.exp(values + errors - top[owner, None]) @ weights)
        counts = np.bincount(owner, minlength=self.mu.size)
        return np.bincount(owner, parts, self.mu.size) * (1 + (counts + 64) * _UNIT)

    def _edges(self) -> Array:
        """Return edges around the centres of the normals of which F is a sum, in order."""
        k, mu = self.power[:, None], self.mu[:, None]
        centres = np.concatenate([0 * mu, mu, 2 * mu, k * mu, -self.two_sided * mu], axis=1)
        around = (2 * np.rint(centres / 2))[:, :, None] + _EDGES
        log_rate, log_rest = -math.log(self.rate), -math.log1p(-self.rate)
        apart = np.abs(k) * np.where(k > 0, log_rate, log_rest)
        grown = np.minimum(np.abs(k * (k - 1)) * mu**2 / 2, apart)
        if self.two_sided:
            grown = grown + (k - 1) * log_rest
        more = np.sqrt(2 * (_LOG_FAR + grown + 2 * log_rate + 2 * np.maximum(-np.log(mu), 0)))
        more = np.maximum(more, _EDGES[-1])
        ends = [
            centres.min(axis=1, keepdims=True) - more,
            centres.max(axis=1, keepdims=True) + more,
        ]
        parts = [around.reshape(mu.size, -1), mu / 2, *ends]
        return np.sort(np.maximum(np.concatenate(parts, axis=1), self.low), axis=1)

    def _log_tails(self, first: Array, last: Array) -> Array:
        """Return the log of a bound on the integral beyond two points."""
        k, mu, q = self.power, self.mu, self.rate
        if self.two_sided:  # F <= k Q
            left = np.log(k) + log_ndtr(first + mu)
        elif self.low > -math.inf:
            left = np.full(k.shape, -np.inf)
        else:  # P >= 1 - q, and P >= v^q
            loss, shift = np.full(k.shape, math.log1p(-q)), np.full(k.shape, -q)
            left = _log_remainder(loss, shift, k) + 2 * math.log(q) + log_ndtr(first)
            p = q * k
            mean = p * (p - 1) * mu**2 / 2 + log_ndtr(first - p * mu)
            left = np.where(k < 0, np.minimum(left, mean), left)
        log_v = mu * (last - mu / 2)
        with np.errstate(over="ignore"):
            share = np.log(q + (1 - q) * np.exp(-log_v))
        right = k * share + k * (k - 1) * mu**2 / 2 + log_ndtr(k * mu - last)
        if self.two_sided:
            right = right - (k - 1) * math.log1p(-q)
        below = np.log(np.abs(k)) + math.log(q) + log_ndtr(mu - last)
        right = np.where(k > 0, right, below)
        size = 1e-12 * (1 + np.abs(left) + np.abs(k * share) + np.abs(right) + k * k * mu**2)
        return np.asarray(np.logaddexp(left, right) + np.where(np.isfinite(size), size, 0.0))

    def _parts(self, x: Array, mu: Array) -> tuple[Array, ...]:
        """Return log v and its rounding, log P, log Q, (P - Q)/Q and a bound on log |P - Q|."""
        log_rate = math.log(self.rate)
        log_v = mu * (x - mu / 2)
        slip = _UNIT * mu * (np.abs(x) + 2 * np.abs(x - mu / 2) + 2 * _MAX_HALF)
        log_p, shift = _log_mixture(log_v, self.rate)
        if not self.two_sided:
            far = np.where(log_v > 0, log_v + slip, 1.0)
            near = np.log(-np.expm1(np.minimum(log_v - slip, 0.0)))
            gap = log_rate + np.where(log_v > 0, far + np.log(-np.expm1(-far)), near)
            return log_v, slip, log_p, np.zeros_like(log_p), shift, gap
        log_q = _log_mixture(-mu * (x + mu / 2), self.rate)[0]
        rise = np.abs(mu * x) + slip
        gap = log_rate - mu**2 / 2 + rise + np.log(-np.expm1(-2 * rise))
        shift = np.copysign(np.exp(np.minimum(gap - log_q, 700.0)), x)
        return log_v, slip, log_p, log_q, shift, gap

    def _values(self, points: Array, owner: Index) -> tuple[Array, Array]:
        """Return log F at points, shape (len(owner), n), and bounds on its rounding."""
        k, mu = (np.repeat(part[owner], points.shape[1]) for part in (self.power, self.mu))
        x = points.ravel()
        with np.errstate(divide="ignore", over="ignore"):
            log_v, slip, log_p, log_q, shift, gap = self._parts(x, mu)
            values = 2 * gap - log_q + _log_remainder(log_p - log_q, shift, k)
        values -= 0.5 * x * x + _LOG_SQRT_TWO_PI
        # the exponents change R by |k - 2| times the share of what depends on x
        if self.two_sided:
            moved = np.abs(k - 2) + np.abs(k)
        else:
            moved = np.abs(k - 2) * np.exp(np.minimum(math.log(self.rate) + log_v - log_p, 0.0))
        units = 4 * (np.abs(k) + 2) * (np.abs(log_p) + np.abs(log_q) + np.minimum(np.abs(shift), 1))
        units += _UNITS + 4 * x * x + 2 * np.abs(values)
        errors = _UNIT * units + moved * slip
        return values.reshape(points.shape), errors.reshape(points.shape)

    def _log_largest(self, middle: Array, a: Array, b: Array, owner: Index) -> Array:
        """Return the log of a bound on |F| at middle + y + it, |y| <= a and |t| <= b."""
        k, mu, log_rate = self.power[owner], self.mu[owner], math.log(self.rate)
        low, high = middle - a, middle + a
        (v0, _, p0, q0, _, gap0), (v1, _, p1, q1, _, gap1) = (
            self._parts(x, mu) for x in (low, high)
        )

        def with_density(left: Array, right: Array) -> Array:
            """Bound the log of a log-convex function, given at both ends, times that of phi."""
            slope = (right - left) / (high - low)
            top = np.clip(slope, low, high)
            return np.asarray(left + slope * (top - low) - top**2 / 2)

        turn, steep = mu * b, k >= 2
        growth = b * b / 2 - _LOG_SQRT_TWO_PI
        cos = _log_cos(turn / 2)
        # shares of q v in P, above or below 1/2 throughout, and of its mirror image in Q
        left = np.log(np.maximum(1 - 2 * np.exp(np.minimum(log_rate + v1 - p1, 0.0)), 0.0))
        right = np.log(np.maximum(2 * np.exp(np.minimum(log_rate + v0 - p0, 0.0)) - 1, 0.0))
        if self.two_sided:
            mirror = np.exp(np.minimum(log_rate - mu * (low + mu / 2) - q0, 0.0))
            least_q = np.maximum(cos, np.log(np.maximum(1 - 2 * mirror, 0.0)))
            grown = 2 * (math.log(2) + log_rate + np.log(np.minimum(turn, 1.0))) - mu**2
            shrinks = _log_cos(turn)
        else:
            least_q = np.zeros_like(middle)
            grown = 2 * (log_rate + np.log(np.minimum(turn, 2.0))) + v1
            shrinks = np.maximum(cos, left)
        of_q = (1 - k) * np.where(k > 1, q1 + least_q, 0.0)
        gap = np.logaddexp(2 * np.maximum(gap0, gap1), grown)
        q_first = np.where(steep, q0, q1)
        first = (k - 2) * q_first + _log_power(p0 - q_first, k)
        last = np.where(steep, (k - 2) * q1 + _log_power(p1 - q1, k), first)
        taylor = gap + with_density(first, last) + of_q
        taylor += np.where(steep, 0.0, (k - 2) * shrinks)
        taylor = np.where(shrinks > -np.inf, taylor, np.inf)
        least = np.maximum(np.maximum(cos, left), right)
        raised = with_density(k * p0, np.where(k > 0, k * p1, k * p0)) + 1e-9 * np.abs(k * p1)
        raised += of_q + np.where(k > 0, 0.0, k * least)
        flat = np.zeros_like(middle)
        apart = np.logaddexp(raised, np.log(np.abs(k - 1)) + q0 + with_density(flat, flat))
        apart = np.logaddexp(apart, np.log(np.abs(k)) + with_density(p0, p1))
        apart = np.where((least > -np.inf) & (least_q > -np.inf), apart, np.inf)
        return np.asarray(growth + np.minimum(taylor, apart))


def _log_cos(angle: Array) -> Array:
    """Return the log of a cosine, -inf from about a quarter turn on."""
    return np.where(angle < 1.57, np.log(np.cos(np.minimum(angle, 1.57))), -np.inf)


def _log_power(loss: Array, k: Array) -> Array:
    """Return log R for Q = 1 and a loss log P; with room for its rounding."""
    return _log_remainder(loss, np.expm1(np.minimum(loss, 700.0)), k) + 1e-9 * (
        1 + np.abs(k * loss)
    )


def _log_mixture(log_v: Array, rate: float) -> tuple[Array, Array]:
    """Return log(1 - q + q v), and q (v - 1)."""
    shift = rate * np.expm1(np.minimum(log_v, 600.0))
    with np.errstate(divide="ignore"):
        near = np.log1p(shift)
    far = np.logaddexp(math.log(rate) + log_v, math.log1p(-rate))
    return np.where((shift > -0.5) & (log_v < 600), near, far), shift


def _log_remainder(loss: Array, shift: Array, power: Array) -> Array:
    """Return log of (w^k - 1 - k (w - 1))/(w - 1)^2, k above 1 or below 0, from log w and w - 1."""
    loss = np.maximum(loss, -600.0)  # smaller losses change no digit
    tiny = np.abs(shift) * np.maximum(np.abs(power), 2.0) < 0.1
    result = np.empty_like(loss)
    s, p = shift[tiny], power[tiny]
    series = np.zeros_like(s)
    for j in _SERIES:
        series = (p - j + 1) / j * s * (1 + series)
    result[tiny] = np.log(np.abs(p) / 2 * np.abs(p - 1)) + np.log1p(series)
    far = ~tiny
    with np.errstate(divide="ignore"):
        gap = np.where(loss[far] > 500, loss[far], np.log(np.abs(shift[far])))
    result[far] = _far_from_one(loss[far], shift[far], power[far]) - 2 * gap
    return result


def _far_from_one(loss: Array, shift: Array, power: Array) -> Array:
    """Log of w^p - 1 - p (w - 1) from log w, and from w - 1 where w^p is large and p < 0."""
    positive = bool(np.all(power > 0))
    gap = power - 1 if positive else -power
    raised = gap * loss if positive else -gap * loss
    rest = gap * -np.expm1(-loss)  # gap (w - 1)/w
    large = raised >= 30
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        inner = np.expm1(np.minimum(raised, 30.0))
        inner = inner - rest if positive else inner * np.exp(-loss) + rest
        result = np.log(np.maximum(inner, 0.0))
        # w < 1 where a negative power makes it large, and w - 1 is the shift
        less = -(1 + rest[large]) if positive else gap[large] * shift[large] - 1
        far = raised[large] + np.log1p(less * np.exp(-raised[large]))
    result[large] = far if positive else far - loss[large]
    return result + loss
