"""Domains in many dimensions that cancel a gradient which all records share.

In one dimension a gradient common to all records drives the iterate to a wall, and with it the
records that could have moved it away. In many dimensions it need not. With (a, w) in R x R^(d-1),
the domain

    K = {0 <= a <= h, |w| <= k (h - a)},   h sqrt(1 + k^2) = D,   k <= 1/2,

is convex and has the diameter D. Let all losses depend on a alone, and let eta G be the common
displacement along a, on top of an update phi of one dimension. A step leads to the point with

    y = phi(a) + eta G + s Z  along a,   rho = |w + s W|  across,   |w| <= k h,

Z and W standard normal. Unless rho <= k h, its projection lies on the side of the cone, at

    a' = (y + k^2 h - k rho)/(1 + k^2), held within [0, h].

Now rho = s sqrt(d - 1) + O(s), because a norm concentrates. Take k = eta G/(s sqrt(d - 1)): the
common displacement and k rho cancel but for

    k E|rho - s sqrt(d - 1)| <= eta G (sqrt 2 + o(1))/sqrt(d - 1),

k tends to 0, and given W the noise along a stays normal. So the law of a' tends in total variation
to that of phi(a) + s Z held within [0, D], uniformly over the cone, and over T steps the errors
add up. The ratio eta G/s is G/sigma, so that one cone serves all step sizes. For G < 0 the cone is
reflected.

Hence every privacy curve of the walks without the common gradient is a limit of curves of pairs
that have it: it bounds from below what is true in all dimensions. Under a Lipschitz constant L this
matters for batches drawn at random. In one dimension a record at L or -L stands against others near
0, because others near L would drive the walk to the wall: a batch with the record differs by eta
L/b from one without. With the common gradient taken off, the others and the record may all be at L
in one dataset, and the record at -L in the other: batches differ by 2 eta L/b, and a batch with the
record is like one without in the first dataset. Upper bounds that use the sensitivity 2 L allow
this.
"""

from __future__ import annotations

from audit.constructions.base import require
from audit.mechanism import NoisySGD, Relation


def check_cancelled(name: str, mechanism: NoisySGD) -> None:
    """Raise `Inadmissible` unless a domain may cancel a gradient of all records."""
    m = mechanism
    for fits, wanted, got in (
        (m.diameter is not None, "a bounded domain", "diameter=None"),
        (m.relation is Relation.REPLACE_ONE, "relation='replace one'", m.relation.value),
        (not m.batching.has_random_size, "batches of fixed size", m.batching.value),
    ):
        require(name, fits, f"{wanted} if cancelled is not 0", got)
