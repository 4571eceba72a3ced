"""User-defined mechanisms: a function that draws scores, or files of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from audit import validate
from audit.codec import encode
from audit.curves import Order
from audit.estimation.score_source import Columns, ScoreSource
from audit.results.verdicts import UserClaim as UserClaim
from audit.scenario.kinds import RunContext, Setting, check_claims, setting_kind

if TYPE_CHECKING:
    from audit.results import UserMechanismResult


@setting_kind
@dataclass(frozen=True, kw_only=True)
class UserMechanismSetting(Setting):
    """Scores of a user-defined mechanism, and claims about it.

    Parameters
    ----------
    own : ScoreSource
        Source of the scores; ``trials`` may be written beside it.
    claims : tuple of UserClaim
        Claims, at least one.
    deltas : tuple of float, optional
        Deltas at which epsilon is certified; defaults to those of the claims.
    columns : Columns, optional
        How several numbers per run are combined into one score; `LinearScore` by default.
    group_size : int, default: 1
        Number of records in which the two datasets differ. Claims are about one record.
    favours : Order, optional
        Dataset that high scores can only support, known beforehand: FORWARD for dataset 0, REVERSE
        for dataset 1; None for either. It gives tighter bounds.
    name, title, summary : str
        Short name for files, and texts for readers.

    Raises
    ------
    ValueError
        If a parameter is out of range, or claims share a name.
    """

    key: ClassVar[str] = "own"
    flat: ClassVar[bool] = True

    own: ScoreSource
    claims: tuple[UserClaim, ...]
    deltas: tuple[float, ...] = ()
    columns: Columns | None = None
    group_size: int = 1
    favours: Order | None = None

    def __post_init__(self) -> None:
        validate.integer(1, group_size=self.group_size)
        check_claims(self.claims)
        validate.half_open_unit(**{f"deltas[{i}]": d for i, d in enumerate(self.deltas)})

    @property
    def all_deltas(self) -> tuple[float, ...]:
        """Deltas at which epsilon is certified, the largest first."""
        return tuple(sorted({*self.deltas, *(c.delta for c in self.claims)}, reverse=True))

    @classmethod
    def keys(cls) -> Mapping[str, Any]:
        """Return the keys of a setting of this kind, with the hints of their values."""
        return {**super().keys(), "trials": int | None}

    @classmethod
    def read_fields(
        cls, values: dict[str, Any], where: str, folders: Sequence[Path]
    ) -> dict[str, Any]:
        """Move ``trials`` to the source of the scores, which it may stand beside."""
        if "trials" in values and isinstance(values["own"], Mapping):
            values["own"] = {"trials": values.pop("trials"), **values["own"]}
        return {}

    def to_plain(self) -> dict[str, Any]:
        """Return the keys and values of a scenario file."""
        plain = encode(self, defaults=False) | {"deltas": encode(self.deltas)}
        if self.columns is not None:
            plain["columns"] = encode(self.columns)
        trials = {key: plain["own"].pop(key) for key in ("trials",) if key in plain["own"]}
        del plain["name"]
        return {"title": self.title, "summary": self.summary, **plain, **trials}

    def run(self, context: RunContext) -> UserMechanismResult:
        """Draw or read the scores, certify lower bounds, and judge the claims."""
        # estimators take a while to import, which a misspelt scenario must not
        from audit.scenario.run_user_mechanism import audit_scores

        context.progress.stage(f"{self.name}: scores of {self.own.described}")
        return audit_scores(self, confidence=context.confidence, seed=context.seed)
