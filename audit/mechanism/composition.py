"""Several runs on one dataset, all of which are released."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from audit import validate
from audit.mechanism.choices import Choice, Relation, Release
from audit.mechanism.noisy_sgd import NoisySGD
from audit.numerics.display import ShortRepr


@dataclass(frozen=True)
class Composition(ShortRepr):
    """Runs of DP-SGD on one dataset, one after another, that release all their iterates.

    A run whose noise multiplier, sampling rate or batch size changes is a composition of its parts:
    a noise schedule, growing batches, the history of an accountant. The same record takes part in
    every part, and each part may depend on the output of earlier ones.

    Parameters
    ----------
    parts : tuple of NoisySGD
        Mechanisms in the order of their release. All have ``release=Release.ALL_ITERATES``, and the
        same relation and dataset size.

    Raises
    ------
    ValueError
        If ``parts`` is empty, a part has another release, or the parts differ in relation or
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
        parts: object = self.parts
        if not isinstance(parts, tuple | list) or not parts:
            raise validate.fail("parts", "at least one mechanism", parts)
        object.__setattr__(self, "parts", tuple(parts))
        first = self.parts[0]
        for number, part in enumerate(self.parts):
            name = f"parts[{number}]"
            validate.instance(NoisySGD, **{name: part})
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
        """Total number of updates."""
        return sum(part.steps for part in self.parts)

    @property
    def dataset_size(self) -> int:
        """Number of records, n."""
        return self.parts[0].dataset_size

    @property
    def relation(self) -> Relation:
        """Adjacency, the same for all parts."""
        return self.parts[0].relation

    @property
    def release(self) -> Release:
        """Output that the adversary sees: all iterates."""
        return Release.ALL_ITERATES

    def uncovered(self, also: Collection[Choice] = ()) -> str:
        """Return why code for a single run must refuse a composition.

        Parameters
        ----------
        also : collection of Choice, optional
            Ignored: no choice of a single run covers a composition.

        Returns
        -------
        str
            The reason: ``"needs a single run, got ..."``.
        """
        return f"needs a single run, got a composition of {len(self.parts)}"
