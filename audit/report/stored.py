"""Reading a stored result: what is there, what is optional, what an absent number means."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Node = dict[str, Any]
Ends = Sequence[float | None]

CONSISTENT, REFUTED, NOT_APPLICABLE = "consistent", "refuted", "not applicable"
INCONCLUSIVE, HOLDS = "inconclusive", "holds"
_SOUND = ("as printed", "corrected", "own", "claimed")


@dataclass(frozen=True)
class Claimed:
    """A bound at one delta of one setting, as stored."""

    setting: Node
    row: Node
    bound: Node

    @property
    def epsilon(self) -> float:
        """The claimed epsilon; infinite where nothing finite is claimed."""
        return infinite(self.bound.get("epsilon"))


def infinite(value: float | None) -> float:
    """Return the number, infinity for None."""
    return math.inf if value is None else float(value)


def stemmed(settings: Sequence[Node]) -> list[Node]:
    """Return the settings with a ``stem`` each, no two alike."""
    taken: set[str] = set()
    result = []
    for setting in settings:
        name = first = stem(setting)
        number = 1
        while name in taken:
            number += 1
            name = f"{first}-{number}"
        taken.add(name)
        result.append({**setting, "stem": name})
    return result


def stem(setting: Node) -> str:
    """Return the setting's name as it may stand in a file name or an anchor."""
    if "stem" in setting:
        return str(setting["stem"])
    return re.sub(r"[^A-Za-z0-9._-]+", "-", str(setting["name"])).strip(".-") or "setting"


def title(setting: Node) -> str:
    """Return the words for a setting."""
    return str(setting.get("title") or setting["name"])


def judged(settings: Sequence[Node]) -> Iterator[Claimed]:
    """Yield every bound that applies, with its delta and setting."""
    for setting in settings:
        for row in setting["deltas"]:
            for bound in row.get("bounds", ()):
                if bound.get("verdict") != NOT_APPLICABLE:
                    yield Claimed(setting, row, bound)


def refuted(row: Node) -> list[Node]:
    """Return the refuted bounds of one delta."""
    return [bound for bound in row.get("bounds", ()) if bound.get("verdict") == REFUTED]


def stands(bound: Node, verdict: str) -> bool:
    """Whether a bound may be called the tightest: proven as far as is known, and not refuted."""
    return verdict == CONSISTENT and bound.get("status", _SOUND[0]) in _SOUND


def unsound(setting: Node) -> frozenset[str]:
    """Return the ids of the setting's bounds that may not be called the tightest, as none proves.

    Those of their status, and those that are refuted at some delta.
    """
    bounds = [bound for row in setting["deltas"] for bound in row.get("bounds", ())]
    return frozenset(
        str(bound["id"])
        for bound in bounds
        if bound.get("status", _SOUND[0]) not in _SOUND or bound.get("verdict") == REFUTED
    )


def refuted_orders(settings: Sequence[Node]) -> list[str]:
    """Return the ids of bounds that are refuted as bounds on a Renyi divergence, sorted."""
    rows = [row for setting in settings for row in setting.get("renyi") or ()]
    bounds = [bound for row in rows for bound in row.get("bounds", ())]
    return sorted({str(b["id"]) for b in bounds if b.get("verdict") == REFUTED})


def refuted_records(settings: Sequence[Node]) -> list[str]:
    """Return the ids of bounds that are refuted for some record's index, sorted."""
    rows = [row for setting in settings for row in setting.get("positions") or ()]
    bounds = [bound for row in rows for bound in row["bounds"]]
    return sorted({str(b["id"]) for b in bounds if REFUTED in b["verdict"]})


def tightest(row: Node) -> Node | None:
    """Return the tightest bound that was not refuted.

    It is the one stored as best, unless that one is refuted or missing.
    """
    bounds: dict[str, Node] = {bound["id"]: bound for bound in row.get("bounds", ())}
    best = row.get("best")
    if best and bounds.get(best["id"], {}).get("verdict") == CONSISTENT:
        return bounds[best["id"]]
    candidates = [
        bound
        for bound in bounds.values()
        if stands(bound, str(bound.get("verdict"))) and bound.get("epsilon") is not None
    ]
    return min(candidates, key=lambda bound: float(bound["epsilon"]), default=None)


def sampled_epsilon(row: Node) -> float | None:
    """Return the certified lower bound at one delta, None if there were no samples."""
    sampled = row.get("sampled")
    if not sampled:
        return None
    value = sampled.get("epsilon", sampled.get("value"))
    return None if value is None else float(value)


def certifiable(row: Node) -> float | None:
    """Return the most that the samples could have certified, None where there is no limit."""
    sampled = row.get("sampled") or {}
    value = sampled.get("largest_certifiable", sampled.get("sampling_limit"))
    return None if value is None else float(value)


def worst(row: Node) -> Ends:
    """Return the bracket of the exact epsilon, the worse of the two orders.

    Where it is not known (`exact_known`): what samples certify, without an upper end.
    """
    ends: Ends = row["exact"]["worst"]
    return ends


def exact_known(row: Node) -> bool:
    """Whether the exact value was computed; of a user's own mechanism only samples speak."""
    return bool(row["exact"].get("known", True))


def strongest(row: Node) -> tuple[float, str]:
    """Return what claims are compared with: the largest certain epsilon, and the pair it is of.

    The name is empty where the sampled pair itself is the strongest.
    """
    own = infinite(worst(row)[0])
    certified = row.get("certified") or {}
    other = certified.get("epsilon")
    if other is None or float(other) <= own:
        return own, ""
    return float(other), str(certified.get("by", "another pair"))


def bound_ids(settings: Sequence[Node]) -> list[str]:
    """Return the ids of all bounds that have a number somewhere, sorted."""
    found = {claim.bound["id"] for claim in judged(settings)}
    for setting in settings:
        for part in ("tradeoff", "epsilon_against_steps"):
            found |= {bound["id"] for bound in (setting.get(part) or {}).get("bounds", ())}
        for part in ("renyi", "positions"):
            found |= {b["id"] for row in setting.get(part) or () for b in row.get("bounds", ())}
    return sorted(found)


@dataclass(frozen=True)
class Stated:
    """A statement of a study, as stored, and the setting that asked."""

    setting: Node
    statement: Node

    @property
    def outcome(self) -> str:
        """What became of it, in a word."""
        return str(self.statement["outcome"])


def compared(settings: Sequence[Node]) -> list[Node]:
    """Return the settings that compare epsilons; a study has none to compare."""
    return [setting for setting in settings if setting["deltas"]]


def studied(settings: Sequence[Node]) -> list[Node]:
    """Return the settings that hold a study."""
    return [setting for setting in settings if setting.get("study")]


def stated(settings: Sequence[Node]) -> list[Stated]:
    """Return the statements of all studies, in their order."""
    return [
        Stated(setting, statement)
        for setting in studied(settings)
        for statement in setting["study"].get("statements", ())
    ]


def verdicts(node: Any) -> Iterator[str]:
    """Yield the word under every key ``verdict``, however deep."""
    if isinstance(node, dict):
        if isinstance(node.get("verdict"), str):
            yield node["verdict"]
        for item in node.values():
            yield from verdicts(item)
    elif isinstance(node, list):
        for item in node:
            yield from verdicts(item)
