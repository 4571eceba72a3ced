"""Settings that attack one mechanism with a neighbouring pair."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from audit import validate
from audit.codec import decode, encode
from audit.constructions import Construction, decode_pair, kinds
from audit.mechanism import NoisySGD, decode_mechanism, encode_mechanism
from audit.scenario.definition import RunContext, Setting, load, reference, setting_kind

if TYPE_CHECKING:
    from audit.results import PairResult


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """Worst-case search whose best pair is added to a setting's other pairs."""

    delta: float  #: Delta at which the search maximises epsilon.
    #: Number of pairs to try; the search ends earlier if a pair attains an upper bound.
    evaluations: int
    #: Whether domains in many dimensions may cancel a gradient of all records
    #: (`audit.constructions.cone`).
    many_dimensions: bool = False

    def __post_init__(self) -> None:
        validate.half_open_unit(delta=self.delta)
        validate.integer(1, evaluations=self.evaluations)


@setting_kind
@dataclass(frozen=True, kw_only=True)
class PairSetting(Setting):
    """One mechanism, the pair that attacks it, and what is computed.

    Raises
    ------
    ValueError
        If a parameter is out of range, or a pair is not one of neighbouring datasets.
    """

    key: ClassVar[str] = "pair"

    #: Construction that is computed and sampled; its mechanism is that of the setting.
    pair: Construction
    #: More constructions for the same mechanism, computed only.
    other_pairs: tuple[Construction, ...] = ()
    deltas: tuple[float, ...]  #: Deltas at which epsilons are compared, one or more.
    renyi_orders: tuple[float, ...] = ()  #: Orders of Renyi divergences.
    trials: int  #: Number of samples of each of the two laws.
    steps_shown: tuple[int, ...] = ()  #: Numbers of steps in the figure of epsilon against T.
    #: Batches of the cycle, from 0, for whose records the leak is computed (cyclic batches).
    positions: tuple[int, ...] = ()
    search: SearchPlan | None = None  #: Search whose best pair is added to the others.

    def __post_init__(self) -> None:
        if not self.deltas:
            raise validate.fail("deltas", "one or more numbers in [0, 1)", self.deltas)
        validate.half_open_unit(**{f"deltas[{i}]": d for i, d in enumerate(self.deltas)})
        validate.above_one(**{f"renyi_orders[{i}]": a for i, a in enumerate(self.renyi_orders)})
        validate.integer(1000, trials=self.trials)
        validate.integer(1, **{f"steps_shown[{i}]": t for i, t in enumerate(self.steps_shown)})
        for pair in (self.pair, *self.other_pairs):
            if not pair.is_neighbouring:
                raise validate.fail("pair", "a pair of neighbouring datasets", pair)
            for position in self.positions:
                at_position(pair, position)  # refuses a batch that the cycle does not have

    @classmethod
    def keys(cls) -> Mapping[str, Any]:
        """Return the keys of a setting of this kind, with the hints of their values."""
        return {"mechanism": NoisySGD, **super().keys()}

    @classmethod
    def read_fields(
        cls, values: dict[str, Any], where: str, folders: Sequence[Path]
    ) -> dict[str, Any]:
        """Take the mechanism out, and return the pairs, which need it."""
        if "mechanism" not in values:
            problem = f"must be given for a setting with the key {cls.key}, got nothing"
            raise ValueError(f"{where}.mechanism {problem}")
        mechanism = decode_mechanism(values.pop("mechanism"), f"{where}.mechanism")
        others = decode(tuple[Any, ...], values.get("other_pairs", ()), f"{where}.other_pairs")
        return {
            "pair": _read_pair(values["pair"], mechanism, f"{where}.pair", folders),
            "other_pairs": tuple(
                _read_pair(other, mechanism, f"{where}.other_pairs[{i}]", folders)
                for i, other in enumerate(others)
            ),
        }

    def own_plain(self) -> dict[str, Any]:
        """Return the keys and values of this kind; each pair with its own kind's fields."""
        plain = super().own_plain()
        plain["pair"] = _own_fields(self.pair)
        plain["other_pairs"] = [_own_fields(other) for other in self.other_pairs]
        return {"mechanism": encode_mechanism(self.pair.mechanism), **plain}

    def run(self, context: RunContext) -> PairResult:
        """Compute, sample and bound the setting."""
        # exact laws and samplers take a while to import, which a misspelt scenario must not
        from audit.scenario.run_pair import run_pair

        return run_pair(self, context)


def _read_pair(
    plain: Any, mechanism: NoisySGD, where: str, folders: Sequence[Path]
) -> Construction:
    """Return the construction that plain data stands for; ``module:class`` names one of a user."""
    kind = plain.get("kind") if isinstance(plain, Mapping) else plain
    if isinstance(kind, str) and ":" in kind:
        found = load(kind, name=f"{where}.kind", folders=folders)
        name = getattr(found, "__name__", "")
        if kinds().get(name) is not found:
            raise validate.fail(f"{where}.kind", "a class decorated with @construction", kind)
        plain = {**plain, "kind": name} if isinstance(plain, Mapping) else name
    return decode_pair(plain, mechanism, where)


def _own_fields(pair: Construction) -> dict[str, Any]:
    """Return the kind of a pair and its fields, without the mechanism."""
    plain: dict[str, Any] = encode(pair)
    del plain["mechanism"]
    return {**plain, "kind": reference(type(pair)) or plain["kind"]}


def at_position(pair: Construction, position: int) -> Construction:
    """Return the same construction with the differing record in another batch of the cycle."""
    if "position" not in {field.name for field in dataclasses.fields(pair)}:
        raise ValueError(f"positions must be empty for a {pair.name}, got {position}")
    return dataclasses.replace(pair, position=position)  # type: ignore[call-arg]
