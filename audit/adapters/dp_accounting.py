"""dp-accounting: its events as mechanisms, and the claims of its accountants.

A `DpEvent` describes the noise and the batches of a run in units of the clipping norm C: a
`GaussianDpEvent` with noise multiplier z adds noise of standard deviation z C to a sum of records
of norm at most C. It contains neither the number of records nor the adjacency.

The relations are ``ADD_OR_REMOVE_ONE`` (`Relation.ADD_REMOVE`: the worse of both orders),
``REPLACE_ONE`` (`Relation.REPLACE_ONE`) and ``REPLACE_SPECIAL`` (`Relation.ZERO_OUT`). Sums of
replace-one neighbours differ by up to 2 C, so the ratio of noise to sensitivity is z/2. The
library's `PLDAccountant` uses z/2; its `RdpAccountant` uses z, and so claims a quarter of the
divergence (google/differential-privacy issue 378).
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from audit import validate
from audit.adapters.libraries import ClaimedCurve, load
from audit.adapters.steps import composed, noise_over_clip_norm, runs_of, step
from audit.mechanism import Batching, Composition, Divisor, NoisySGD, Relation, Release

__all__ = [
    "Accountant",
    "accountant",
    "claimed_curve",
    "from_dp_event",
    "neighboring_relation",
    "relation_of",
    "to_dp_event",
]

_RELATIONS = {
    Relation.ADD_REMOVE: "ADD_OR_REMOVE_ONE",
    Relation.REPLACE_ONE: "REPLACE_ONE",
    Relation.ZERO_OUT: "REPLACE_SPECIAL",
}
_READ = (
    "GaussianDpEvent",
    "PoissonSampledDpEvent",
    "SampledWithoutReplacementDpEvent",
    "TruncatedSubsampledGaussianDpEvent",
    "ComposedDpEvent",
    "SelfComposedDpEvent",
    "NoOpDpEvent",
)
_QUERIES = ("GaussianDpEvent", "ComposedDpEvent", "SelfComposedDpEvent")


class Accountant(enum.Enum):
    """Accountants of dp-accounting."""

    PLD = "pld"
    RDP = "rdp"


def library() -> Any:
    """Return the module ``dp_accounting``, or raise `ImportError` naming the extra."""
    return load("dp_accounting", extra="dp-accounting")


def relation_of(relation: Any) -> Relation:
    """Return a ``NeighboringRelation`` as a `Relation`."""
    if isinstance(relation, Relation):
        return relation
    for ours, name in _RELATIONS.items():
        if relation is getattr(library().NeighboringRelation, name):
            return ours
    raise validate.fail("relation", "a Relation or a NeighboringRelation", relation)


def neighboring_relation(relation: Relation) -> Any:
    """Return a `Relation` as a ``NeighboringRelation`` of dp-accounting."""
    validate.instance(Relation, relation=relation)
    return getattr(library().NeighboringRelation, _RELATIONS[relation])


def from_dp_event(
    event: Any, *, dataset_size: int, relation: Any, clip_norm: float = 1.0
) -> NoisySGD | Composition:
    """Return the mechanism described by an event: clipped DP-SGD that releases all iterates.

    Parameters
    ----------
    event : object
        A ``DpEvent``: ``GaussianDpEvent`` (full batches), ``PoissonSampledDpEvent``,
        ``SampledWithoutReplacementDpEvent`` and ``TruncatedSubsampledGaussianDpEvent``, composed in
        any way. Several Gaussian queries on one sample are combined into one. ``NoOpDpEvent`` is
        ignored.
    dataset_size : int
        Number of records n. Most events do not contain it; those that do must agree.
    relation : Relation or NeighboringRelation
        Adjacency, which no event contains: a `Relation`, or the ``neighboring_relation`` of an
        accountant.
    clip_norm : float, default: 1.0
        Clipping norm C. Privacy depends on the ratio of noise to C only.

    Returns
    -------
    NoisySGD or Composition
        One run if all steps are alike. The sampling probability of Poisson batches is kept as
        ``poisson_rate`` if it is not a whole number of records. The divisor is nominal, and the
        step size is 1, which has no effect if all iterates are released.

    Raises
    ------
    ValueError
        If a node of the event has no counterpart (the message gives its type and its position in
        the tree), or a number is out of range.
    ImportError
        If dp-accounting is not installed.

    Examples
    --------
    >>> import dp_accounting
    >>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(6.0))
    >>> m = from_dp_event(dp_accounting.SelfComposedDpEvent(step, 10_000),
    ...                   dataset_size=60_000, relation=Relation.ADD_REMOVE)
    >>> m.steps, m.sampling_rate, m.noise_multiplier, m.batching.value
    (10000, 0.01, 6.0, 'poisson')
    """
    validate.integer(1, dataset_size=dataset_size)
    validate.positive(clip_norm=clip_norm)
    shared = {
        "dataset_size": dataset_size,
        "relation": relation_of(relation),
        "clip_norm": clip_norm,
    }
    steps = [
        (_step(one, place, shared), times)
        for one, times, place in _leaves(event, 1, "event", within=False)
    ]
    if not steps:
        raise ValueError("event must release something in at least one step, got none")
    return composed(steps)


def _is(event: Any, name: str) -> bool:
    """Return whether an event has a class, which older versions of the library may lack."""
    cls = getattr(library(), name, None)
    return cls is not None and isinstance(event, cls)


def _leaves(event: Any, times: int, place: str, *, within: bool) -> Iterator[tuple[Any, int, str]]:
    """Yield the nodes that are no compositions, each with its repetitions and its place.

    ``within`` a sample, where each node is a query, nothing is ignored.
    """
    if _is(event, "NoOpDpEvent") and not within:
        return
    if _is(event, "ComposedDpEvent") and (event.events or not within):
        for number, part in enumerate(event.events):
            yield from _leaves(part, times, f"{place}.events[{number}]", within=within)
    elif _is(event, "SelfComposedDpEvent"):
        validate.integer(1, **{f"{place}.count": event.count})
        yield from _leaves(event.event, times * int(event.count), f"{place}.event", within=within)
    else:
        yield event, times, place


def _step(event: Any, place: str, shared: Mapping[str, Any]) -> NoisySGD:
    """Return the single step of a node that is not a composition."""
    noise, rate, batching, most = math.nan, 1.0, Batching.FULL, None
    if _is(event, "GaussianDpEvent"):
        noise = _noise(event, place)
    elif _is(event, "PoissonSampledDpEvent"):
        noise = _noise(event.event, f"{place}.event")
        rate, batching = event.sampling_probability, Batching.POISSON
    elif _is(event, "SampledWithoutReplacementDpEvent"):
        noise = _noise(event.event, f"{place}.event")
        _check_size(f"{place}.source_dataset_size", event.source_dataset_size, shared)
        validate.integer(1, **{f"{place}.sample_size": event.sample_size})
        rate = event.sample_size / event.source_dataset_size
        batching = Batching.WITHOUT_REPLACEMENT
    elif _is(event, "TruncatedSubsampledGaussianDpEvent"):
        _check_size(f"{place}.dataset_size", event.dataset_size, shared)
        validate.integer(1, **{f"{place}.truncated_batch_size": event.truncated_batch_size})
        noise, rate = event.noise_multiplier, event.sampling_probability
        most, batching = int(event.truncated_batch_size), Batching.TRUNCATED_POISSON
    else:
        raise _refused(event, place, _READ)
    try:
        return step(noise, rate, batching=batching, max_batch_size=most, **shared)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _noise(event: Any, place: str) -> float:
    """Return the noise multiplier of one query equivalent to all on a sample.

    Their noisy values form one Gaussian vector, so z^-2 adds up.
    """
    queries = []
    for query, times, where in _leaves(event, 1, place, within=True):
        if not _is(query, "GaussianDpEvent"):
            raise _refused(query, where, _QUERIES)
        validate.positive(**{f"{where}.noise_multiplier": query.noise_multiplier})
        queries.append(float(query.noise_multiplier) / math.sqrt(times))
    return queries[0] if len(queries) == 1 else 1 / math.hypot(*(1 / noise for noise in queries))


def _check_size(name: str, size: int, shared: Mapping[str, Any]) -> None:
    if size != shared["dataset_size"]:
        raise validate.fail(name, f"the given dataset_size ({shared['dataset_size']})", size)


def _refused(event: Any, place: str, known: Sequence[str]) -> ValueError:
    kind = type(event).__name__ if _is(event, "DpEvent") else validate.shown(event)
    return ValueError(f"{place} must be one of {', '.join(known)}, got {kind}")


def to_dp_event(mechanism: NoisySGD | Composition) -> Any:
    """Return the event of a mechanism, without its relation (see `neighboring_relation`).

    Parameters
    ----------
    mechanism : NoisySGD or Composition
        Releases all iterates, on full, Poisson or truncated Poisson batches or batches without
        replacement, with the nominal divisor.

    Returns
    -------
    DpEvent
        A ``SelfComposedDpEvent`` per run; a ``ComposedDpEvent`` of them for a composition.

    Raises
    ------
    ValueError
        If no event corresponds to the mechanism; the message names the choice.
    ImportError
        If dp-accounting is not installed.

    Examples
    --------
    >>> from audit.adapters.steps import step
    >>> m = step(1.0, 0.25, dataset_size=100, relation=Relation.ADD_REMOVE, clip_norm=1.0)
    >>> to_dp_event(m).event
    PoissonSampledDpEvent(sampling_probability=0.25, event=GaussianDpEvent(noise_multiplier=1.0))
    """
    events = library()
    composed_of = [_event_of(events, run) for run in runs_of(mechanism)]
    return composed_of[0] if len(composed_of) == 1 else events.ComposedDpEvent(composed_of)


def _event_of(events: Any, run: NoisySGD) -> Any:
    if run.release is not Release.ALL_ITERATES:
        raise validate.fail("release", "'all iterates' for a DpEvent", run.release.value)
    if run.divisor is not Divisor.NOMINAL:
        raise validate.fail("divisor", "'nominal' for a DpEvent", run.divisor.value)
    noise = noise_over_clip_norm(run)
    if run.batching is Batching.FULL:
        once = events.GaussianDpEvent(noise)
    elif run.batching is Batching.POISSON:
        once = events.PoissonSampledDpEvent(run.sampling_rate, events.GaussianDpEvent(noise))
    elif run.batching is Batching.WITHOUT_REPLACEMENT:
        once = events.SampledWithoutReplacementDpEvent(
            run.dataset_size, run.batch_size, events.GaussianDpEvent(noise)
        )
    elif run.batching is Batching.TRUNCATED_POISSON:
        once = events.TruncatedSubsampledGaussianDpEvent(
            run.dataset_size, run.sampling_rate, run.max_batch_size, noise
        )
    else:
        known = "'full', 'poisson', 'truncated poisson' or 'without replacement'"
        raise validate.fail("batching", f"{known} for a DpEvent", run.batching.value)
    return events.SelfComposedDpEvent(once, run.steps)


def accountant(
    mechanism: NoisySGD | Composition,
    which: Accountant,
    *,
    orders: Sequence[float] = (),
) -> Any:
    """Return an accountant of dp-accounting that has composed a mechanism's event.

    Parameters
    ----------
    mechanism : NoisySGD or Composition
        As in `to_dp_event`. Its relation becomes that of the accountant.
    which : Accountant
        PLD or RDP.
    orders : sequence of float, optional
        Renyi orders of the RDP accountant; defaults to the library's.

    Returns
    -------
    PrivacyAccountant
        A ``PLDAccountant`` or an ``RdpAccountant``.

    Raises
    ------
    ValueError
        If no event corresponds to the mechanism, or the accountant does not support it.
    ImportError
        If dp-accounting is not installed.

    Examples
    --------
    >>> from audit.adapters.steps import step
    >>> m = step(2.0, 1.0, dataset_size=100, relation=Relation.ADD_REMOVE, clip_norm=1.0,
    ...          batching=Batching.FULL)
    >>> round(float(accountant(m, Accountant.RDP).get_epsilon(1e-5)), 3)
    2.166
    """
    validate.instance(Accountant, which=which)
    modules = library()
    event, relation = to_dp_event(mechanism), neighboring_relation(mechanism.relation)
    if which is Accountant.PLD:
        made = modules.pld.PLDAccountant(relation)
    else:
        made = modules.rdp.RdpAccountant(list(orders) or None, relation)
    try:
        return made.compose(event)
    except modules.UnsupportedEventError as error:
        reason = re.sub(r".*Error: \[(.*)\] caused by.*", r"\1", str(error), flags=re.DOTALL)
        raise ValueError(
            f"{type(made).__name__} does not support the mechanism: {' '.join(reason.split())}"
        ) from None


def claimed_curve(source: Any) -> ClaimedCurve:
    """Return the curve claimed by an accountant or a privacy loss distribution.

    Parameters
    ----------
    source : PrivacyAccountant or PrivacyLossDistribution
        An accountant that has composed its events, or a distribution.

    Returns
    -------
    ClaimedCurve
        The library's upper bounds for both orders, unchecked. Renyi divergences are available for
        an ``RdpAccountant`` only.

    Raises
    ------
    ValueError
        If ``source`` is neither, or an optimistic estimate, which claims no upper bounds.
    ImportError
        If dp-accounting is not installed.

    Examples
    --------
    >>> import dp_accounting
    >>> accountant = dp_accounting.rdp.RdpAccountant([2.0, 8.0])
    >>> claimed_curve(accountant.compose(dp_accounting.GaussianDpEvent(2.0))).renyi(8.0)
    1.0
    """
    modules = library()
    if isinstance(source, modules.PrivacyAccountant):
        divergences: dict[float, float] = {}
        if isinstance(source, modules.rdp.RdpAccountant):
            pairs = zip(source.orders, source.rdp, strict=True)
            divergences = {float(order): float(value) for order, value in pairs if order > 1}
        return ClaimedCurve(
            f"dp-accounting's {type(source).__name__}",
            source.get_epsilon,
            source.get_delta,
            divergences,
        )
    if isinstance(source, modules.pld.privacy_loss_distribution.PrivacyLossDistribution):
        parts = source._pmf_remove, source._pmf_add  # there is no public name
        if not all(getattr(part, "_pessimistic_estimate", True) for part in parts):
            raise ValueError("source must be a pessimistic estimate, got an optimistic one")
        return ClaimedCurve(
            "dp-accounting's PrivacyLossDistribution",
            source.get_epsilon_for_delta,
            source.get_delta_for_epsilon,
        )
    raise validate.fail("source", "a PrivacyAccountant or a PrivacyLossDistribution", source)
