"""Several runs on one dataset, all of which are released."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from audit import validate
from audit.mechanism.choices import Choice, Relation, Release
from audit.mechanism.noisy_sgd import NoisySGD


@dataclass(frozen=True)
class Composition:
    """Runs of clipped DP-SGD on one dataset, one after another, that release all their iterates.

    A run whose noise multiplier, sampling rate or batches change on the way is a composition of its
    parts: noise schedules, growing batches, the history of an accountant. The same record takes
    part in every part, and each part may depend on what the earlier ones released.

    Parameters
    ----------
    parts : tuple of NoisySGD
        In the order of their release: mechanisms with ``release=Release.ALL_ITERATES``, one
        relation and one dataset size.

    Raises
    ------
    ValueError
        If there are no parts, or one releases something else, or they differ in relation or
        dataset size.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from audit.mechanism import Batching
    >>> early = NoisySGD(steps=100, dataset_size=1000, batch_size=10, step_size=0.1, noise_std=0.1,
    ...                  clip_norm=1.0, convex=False, batching=Batching.POISSON,
    ...                  relation=Relation.ADD_REMOVE, release=Release.ALL_ITERATES)
    >>> run = Composition((early, replace(early, batch_size=20)))
    >>> run.steps, [part.noise_multiplier for part in run.parts]
    (200, [1.0, 2.0])
    """

    parts: tuple[NoisySGD, ...]

    kind: ClassVar[str] = "composition"

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _mechanisms(self.parts))
        first = self.parts[0]
        for number, part in enumerate(self.parts):
            name = f"parts[{number}]"
            if part.release is not Release.ALL_ITERATES:
                raise validate.fail(
                    f"{name}.release", repr(Release.ALL_ITERATES.value), part.release.value
                )
            if part.relation is not first.relation:
                raise validate.fail(
                    f"{name}.relation",
                    f"that of the first part ({first.relation.value!r})",
                    part.relation.value,
                )
            if part.dataset_size != first.dataset_size:
                raise validate.fail(
                    f"{name}.dataset_size",
                    f"that of the first part ({first.dataset_size})",
                    part.dataset_size,
                )

    @property
    def steps(self) -> int:
        """The number of updates of all parts."""
        return sum(part.steps for part in self.parts)

    @property
    def dataset_size(self) -> int:
        """The number of records, n."""
        return self.parts[0].dataset_size

    @property
    def relation(self) -> Relation:
        """What makes two datasets neighbours."""
        return self.parts[0].relation

    @property
    def release(self) -> Release:
        """All iterates."""
        return Release.ALL_ITERATES

    def uncovered(self, also: Collection[Choice] = ()) -> str:
        """Return why something that was written for one run must refuse this mechanism.

        Parameters
        ----------
        also : collection of Choice, optional
            Ignored: no choice of a single run covers several.
        """
        return f"needs a single run, got a composition of {len(self.parts)}"


def _mechanisms(parts: object) -> tuple[NoisySGD, ...]:
    if not isinstance(parts, tuple | list) or not parts:
        raise validate.fail("parts", "at least one mechanism", parts)
    for number, part in enumerate(parts):
        validate.instance(NoisySGD, **{f"parts[{number}]": part})
    return tuple(parts)
