"""Judged claims as records of the OpenDP deployments registry.

The registry (github.com/opendp/deployments-registry-data, MIT licence) has one YAML file for each
deployment of differential privacy. Its schema, ``schemas/deployments-schema.yaml``, is followed as
of commit 3e9c812 of 2026-07-15: fields, required fields, enumerations.

The record contains what the claim states: the variant and its parameters, neighbouring datasets,
the mechanism, the composition of privacy loss, and in the notes what was certified. Other facts are
taken from the claim's ``deployment:``; required fields that are missing there get a placeholder.
Placeholders of enumerations and dates do not fit the registry's schema, so its checks find them.
Other unknown fields are left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import audit
from audit.claims import wording
from audit.claims.checking import Checked
from audit.claims.claim import AccountantBound, CallableBound, CatalogueBound, Claim, UserPair
from audit.claims.claimed_numbers import ClaimedNumber
from audit.claims.judgement import Evidence, Judgement
from audit.claims.quantities import EpsilonAtDelta, Mu, RenyiAtOrder
from audit.codec import encode
from audit.mechanism import Composition, NoisySGD, Relation
from audit.results import Verdict

PLACEHOLDER = "PLACEHOLDER"
_TIER_2 = ("model_name", "release_type", "data_source_type", "access_type")
_RECORDED = (Verdict.CONSISTENT, Verdict.REFUTED, Verdict.INCONCLUSIVE)

_BASIC = {
    "name": "the name of the data product",
    "data_curators": "the organisations that publish it",
    "intended_use": "its purpose",
    "data_product_type": "its type",
    "data_product_region": "the region that the data describe",
    "description": "a short description",
    "publication_date": "YYYY-MM-DD",
}
_MODEL = (
    "model_name",
    "model_name_details",
    "actors",
    "release_type",
    "release_type_details",
    "data_source_type",
    "data_source_type_details",
    "access_type",
    "access_type_details",
)


@dataclass(frozen=True)
class Record:
    """A record of the registry.

    Attributes
    ----------
    claim
        The id of the claim.
    content
        The record as plain data.
    missing
        The keys of ``deployment:`` whose values are placeholders.
    """

    claim: str
    content: Mapping[str, Any]
    missing: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """The record's file in the registry's folder of deployments."""
        return f"{_slug(str(self.content['url_slug']))}.yaml"

    def to_yaml(self) -> str:
        """Return the record as YAML text in the form that the registry's checks require."""
        return yaml.dump(
            dict(self.content),
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=math.inf,
        )


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and never folds lines."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def records(judgements: Iterable[Judgement]) -> tuple[Record, ...]:
    """Return the records of all claims that have one: see `record`.

    Raises
    ------
    ValueError
        If two records would be one file.
    """
    found = [made for made in map(record, judgements) if made is not None]
    names: dict[str, str] = {}
    for one in found:
        first = names.setdefault(one.file_name, one.claim)
        if first != one.claim:
            raise ValueError(
                f"url_slug must be one for each record, got {one.file_name} for the claims "
                f"{first!r} and {one.claim!r}"
            )
    return tuple(found)


def record(judgement: Judgement) -> Record | None:
    """Return the record of a judged claim.

    The privacy parameters are the claimed ones, those at the smallest delta if there are several. A
    refuted claim has none: its claimed and certified numbers are in the details and the notes.

    Parameters
    ----------
    judgement
        The claim with its verdict.

    Returns
    -------
    Record or None
        None for claims that something is not private, and for claims that do not apply to their
        mechanism or could not be evaluated.
    """
    claim = judgement.claim
    if claim.statement.is_lower_bound or judgement.verdict not in _RECORDED:
        return None
    given = claim.deployment
    plain: dict[str, Any] = encode(given, defaults=False)
    missing = [key for key in (*_BASIC, "registry_authors") if key not in plain]
    if claim.mechanism is None and given.privacy_unit is None:
        missing.append("privacy_unit")
    tier = 1 if any(key not in plain for key in _TIER_2) or missing else 2
    deployment = {
        "basic": {
            **{key: plain.get(key, _placeholder(key, words)) for key, words in _BASIC.items()},
            **_some(plain, "data_product_sector"),
        },
        "dp_variant": {
            "variant_name": _variant(judgement.numbers),
            **_some(plain, "data_domain", "unprotected_quantities"),
        },
        "privacy_loss": _privacy_loss(judgement, plain),
        "deployment_model": _some(plain, *_MODEL),
        "accounting": {
            **_some(plain, "post_processing"),
            **_joined("composition", given.composition, _accounting(claim)),
        },
        "implementation": {
            **_some(plain, "preprocessing_and_hyperparameter_tuning"),
            **_joined("mechanisms", given.mechanisms, _mechanism(claim)),
            **_some(plain, "justification"),
        },
        "administrative": {
            **_joined("sources", given.sources, claim.citation),
            **_joined("notes", given.notes, _certified(judgement)),
            "registry_authors": plain.get(
                "registry_authors", [f"{PLACEHOLDER}: the authors of this record"]
            ),
        },
    }
    content = {
        "url_slug": given.url_slug or _slug(claim.id),
        "status": "Draft",
        "tier": tier,
        "deployment": {section: fields for section, fields in deployment.items() if fields},
    }
    return Record(claim.id, content, tuple(missing))


def write_records(checked: Checked, folder: Path) -> tuple[str, ...]:
    """Write the records of a check into a folder, one file each; return lines for the terminal."""
    found = records(checked.judgements)
    folder.mkdir(parents=True, exist_ok=True)
    for one in found:
        (folder / one.file_name).write_text(one.to_yaml(), encoding="utf-8")
    written = {one.claim for one in found}
    without = [j.claim.id for j in checked.judgements if j.claim.id not in written]
    lines = [f"{folder}: {len(found)} record{'' if len(found) == 1 else 's'}"]
    if without:
        lines.append(f"{folder}: no record of {', '.join(without)}")
    missing = dict.fromkeys(key for one in found for key in one.missing)
    if missing:
        lines.append(
            f"{folder}: placeholders for {', '.join(missing)}: give them under 'deployment'"
        )
    return tuple(lines)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _placeholder(key: str, words: str) -> Any:
    text = f"{PLACEHOLDER}: {words}"
    return [text] if key == "data_curators" else text


def _some(plain: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: plain[key] for key in keys if key in plain}


def _joined(key: str, *texts: str | None) -> dict[str, str]:
    """Return the texts as paragraphs under a key; nothing if there are none."""
    text = "\n\n".join(text.strip() for text in texts if text)
    return {key: text} if text else {}


# privacy loss

_NEIGHBOURS = {
    Relation.REPLACE_ONE: "Neighbouring datasets have n records each and differ in one of them "
    "(replace one).",
    Relation.ZERO_OUT: "In one of two neighbouring datasets the loss of one record is replaced by "
    "zero; the record keeps its place in the batches (zero out).",
    Relation.ADD_REMOVE: "One of two neighbouring datasets has a record that the other lacks (add "
    "or remove one); n and the sampling rate are those of the larger one.",
}


def _variant(numbers: Iterable[ClaimedNumber]) -> str:
    kinds = {type(number.quantity) for number in numbers}
    if EpsilonAtDelta in kinds:
        return "Pure DP" if _main(numbers).get("delta") == 0 else "Approximate DP"
    return "Renyi DP" if RenyiAtOrder in kinds else "Custom"


def _main(numbers: Iterable[ClaimedNumber]) -> dict[str, float]:
    """Return a finite epsilon and its delta, the smallest delta; nothing if there is none."""
    found = [
        (n.quantity.at, n.value)
        for n in numbers
        if isinstance(n.quantity, EpsilonAtDelta) and math.isfinite(n.value)
    ]
    if not found:
        return {}
    delta, epsilon = min(found)
    return {"epsilon": float(epsilon), "delta": float(delta)}


def _privacy_loss(judgement: Judgement, plain: Mapping[str, Any]) -> dict[str, Any]:
    claim, numbers = judgement.claim, judgement.numbers
    given = claim.deployment
    unit = {"privacy_unit": f"{PLACEHOLDER}: whose data changes between neighbouring datasets"}
    if claim.mechanism is not None:
        unit = {"privacy_unit": "Record-level"}
    main = {} if judgement.verdict is Verdict.REFUTED else _main(numbers)
    if main.get("delta") == 0:
        del main["delta"]
    every = "; ".join(_number_text(number) for number in numbers)
    refuted = "Refuted, see the notes: " if judgement.verdict is Verdict.REFUTED else "Claimed: "
    details = f"{refuted}{every}." if len(numbers) > 1 or not main else None
    return {
        **unit,
        **_some(plain, "privacy_unit"),
        **_joined("privacy_unit_details", given.privacy_unit_details, _neighbours(claim)),
        **({"privacy_parameters": main} if main else {}),
        **_joined("privacy_parameters_details", given.privacy_parameters_details, details),
    }


def _number_text(number: ClaimedNumber) -> str:
    quantity, value = number.quantity, number.value
    if isinstance(quantity, EpsilonAtDelta):
        return f"epsilon {value:.10g} at {wording.tidy(quantity.where)}"
    if isinstance(quantity, RenyiAtOrder):
        return f"Renyi divergence of {quantity.where} at most {value:.10g}, in both orders"
    if isinstance(quantity, Mu):
        return f"mu-Gaussian differential privacy (Dong, Roth and Su 2022) with mu = {value:.10g}"
    return (
        f"tradeoff function (Dong, Roth and Su 2022) of at least {1 - value:.10g} "
        f"at {wording.tidy(quantity.where)}"
    )


def _neighbours(claim: Claim) -> str:
    """Return the definition of neighbouring datasets, and the records that the claim covers."""
    mechanism, statement = claim.mechanism, claim.statement
    if mechanism is None:
        return ""
    lines = [
        f"{_NEIGHBOURS[mechanism.relation]} n = {mechanism.dataset_size}, and it is public. "
        "A record is what the mechanism samples; the claim does not say what it represents."
    ]
    if isinstance(statement, CatalogueBound):
        from audit.bounds import CATALOGUE, RecordScope

        scope = CATALOGUE[statement.id].record_scope
        if scope is not RecordScope.ANY:
            options = "".join(f", {key} = {value}" for key, value in statement.options.items())
            lines.append(f"The claim covers only {scope.value}{options}.")
    return "\n".join(lines)


# accounting and mechanism


def _accounting(claim: Claim) -> str:
    """Return the source of the claimed numbers."""
    statement = claim.statement
    if isinstance(statement, CatalogueBound):
        from audit.bounds import CATALOGUE

        entry = CATALOGUE[statement.id]
        return f"{entry.cite}: {entry.statement} (`{entry.id}`, {entry.status.value})"
    if isinstance(statement, CallableBound):
        return f"Computed by the accountant `{statement.target}`."
    if isinstance(statement, AccountantBound):
        return f"Composed by the accountant `{statement.target}`."
    return ""


def _mechanism(claim: Claim) -> str:
    """Return what is released, with all non-default parameters."""
    mechanism = claim.mechanism
    if isinstance(mechanism, Composition):
        parts = "\n".join(f"- {_run(part)}" for part in mechanism.parts)
        return f"Several runs on one dataset, all of them released:\n{parts}"
    if mechanism is not None:
        return _run(mechanism)
    if claim.pair is not None and not isinstance(claim.pair, UserPair):
        return f"Neighbouring datasets give the laws {wording.described(claim.pair)}."
    return ""


def _run(mechanism: NoisySGD) -> str:
    parameters = encode(mechanism, defaults=False)
    shown = (f"{key} = {_shown(value)}" for key, value in parameters.items())
    return (
        f"Noisy stochastic gradient descent with {mechanism.batching.value} batches and "
        f"{mechanism.divisor.value} divisor; released: {mechanism.release.value}. Noise "
        f"multiplier, the noise of a batch's sum over the sensitivity of a record's gradient: "
        f"{mechanism.noise_multiplier:.10g}. Parameters: {', '.join(shown)}."
    )


def _shown(value: Any) -> str:
    if isinstance(value, list) and len(value) > 8:
        return f"{', '.join(f'{one:.10g}' for one in value[:3])}, ... ({len(value)} numbers)"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


# the certified side


def _certified(judgement: Judgement) -> str:
    """Return the verdict and its evidence, with its limitations."""
    claim, quantity = judgement.claim, judgement.quantity
    place = f" of {claim.location.file.name}" if claim.location else ""
    lines = [
        f"- Claim `{claim.id}`{place}, judged by noisy-sgd-audit {audit.__version__}: "
        f"{judgement.verdict.value}."
    ]
    claimed, certified = judgement.claimed, judgement.certified
    if quantity is not None and certified is not None:
        at = f" at {wording.where(judgement)}" if quantity.where else ""
        # all digits, because a lower bound rounded up is not a bound
        line = f"- Certified lower bound on {quantity.name}{at}: {float(certified)!r}"
        line += f" ({_evidence(judgement)})"
        ratio = judgement.tightness
        if claimed is not None:
            line += f"; claimed: {float(claimed)!r}"
        if ratio is not None and math.isfinite(ratio):
            line += f"; claimed over certified: {ratio:.6g}"
        lines.append(f"{line}.")
    lines.append(f"- {_MEANING[judgement.verdict]}")
    if claim.source:
        lines.append(f"- Mechanism as read from the {claim.source}.")
    if claim.samples is not None:
        lines.append("- The scores are the claimant's; how they were recorded was not checked.")
    elif claim.mechanism is not None:
        lines.append(
            "- The claim was judged for the stated mechanism; whether the deployment runs this "
            "mechanism was not checked."
        )
    return "\n".join(lines)


def _evidence(judgement: Judgement) -> str:
    by = "recorded scores" if judgement.claim.samples is not None else judgement.pair
    if judgement.evidence in (None, Evidence.EXACT):
        return f"exact, {by}"
    return f"from samples, {by}; too high with a probability of at most {judgement.error!r}"


_MEANING = {
    Verdict.CONSISTENT: "Consistent means that no certified lower bound exceeds the claim; it is "
    "not a proof of the claim.",
    Verdict.REFUTED: "Refuted means that a certified lower bound exceeds the claim; the privacy "
    "parameters are left out.",
    Verdict.INCONCLUSIVE: "Inconclusive means that nothing was certified for or against the claim.",
}
