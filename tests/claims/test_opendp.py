"""Records of the OpenDP deployments registry contain what the claim states, and nothing else."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import numpy as np
import pytest
import yaml

from audit.claims import opendp, yaml_tree
from audit.claims.checking import check
from audit.claims.claims_file import load
from audit.claims.deployment import (
    Access,
    DataProduct,
    DataSource,
    Deployment,
    ReleaseType,
    Sector,
    TrustModel,
)
from audit.cli.check import run
from audit.codec import decode

from .written import write

EPSILON = 4.3772  # of mu = 1 at delta 1e-5, rounded up

# The registry's schema in short: github.com/opendp/deployments-registry-data,
# schemas/deployments-schema.yaml at commit 3e9c812a924cf01d228f26f6c462c59c391c3f2a (2026-07-15),
# Copyright (c) 2025 OpenDP, MIT licence. Its fields, types and enumerations, without its prose; no
# object has other properties. A star marks what is required.
STATUS = ["Converted", "Draft", "Pending", "Changes Required", "Approved"]
STATUS += ["Approved (Update Requested)", "Approved (Pending)"]
PRODUCTS = ["Summary statistics", "Machine learning model", "Dataset", "Synthetic data"]
PRODUCTS += ["Interactive API", "SQL queries"]
TEXT, TEXTS, ANY = (
    {"type": "string"},
    {"type": "array", "items": {"type": "string"}, "minItems": 1},
    {},
)
DETAILS = {
    "basic*": {
        "name*": TEXT,
        "data_curators*": TEXTS,
        "intended_use*": TEXT,
        "data_product_type*": PRODUCTS,
        "data_product_region*": TEXT,
        "description*": TEXT,
        "publication_date*": {"type": "string", "format": "date"},
        "data_product_sector": [
            "Technology",
            "Healthcare",
            "Education",
            "Government",
            "Energy",
            "Finance",
        ],
    },
    "dp_variant": {
        "variant_name": [
            "Pure DP",
            "Approximate DP",
            "Zero-concentrated DP",
            "Renyi DP",
            "Custom",
        ],
        "data_domain": TEXT,
        "unprotected_quantities": TEXT,
    },
    "privacy_loss": {
        "privacy_unit": TEXT,
        "privacy_unit_details": TEXT,
        "privacy_parameters": {
            "epsilon": {"type": "number"},
            "delta": {"type": ["number", "string"]},
            "rho": {"type": "number"},
        },
        "privacy_parameters_details": ANY,
    },
    "deployment_model": {
        "model_name": ["Local", "Central", "Shuffle", "Federated", "Varies"],
        "model_name_details": TEXT,
        "actors": TEXT,
        "release_type": ["One release", "Many releases"],
        "release_type_details": TEXT,
        "data_source_type": ["Static", "Dynamic"],
        "data_source_type_details": ANY,
        "access_type": ["Interactive", "Non-interactive"],
        "access_type_details": TEXT,
    },
    "accounting": {"post_processing": TEXT, "composition": TEXT},
    "implementation": {
        "preprocessing_and_hyperparameter_tuning": TEXT,
        "mechanisms": TEXT,
        "justification": TEXT,
    },
    "administrative": {"sources": TEXT, "notes": TEXT, "registry_authors*": TEXTS},
}
RECORD = {"url_slug*": TEXT, "status*": STATUS, "tier*": [1, 2, 3], "deployment*": DETAILS}


def schema_of(node: Any) -> dict[str, Any]:
    if isinstance(node, list):
        return {"enum": node}
    if "type" in node or not node:
        return dict(node)
    return {
        "type": "object",
        "properties": {key.rstrip("*"): schema_of(one) for key, one in node.items()},
        "required": [key.rstrip("*") for key in node if key.endswith("*")],
        "additionalProperties": False,
    }


def errors(record: Any, schema: Any = None) -> list[str]:
    """Where a record does not fit the schema, checked as the registry does."""
    draft = jsonschema.Draft7Validator
    checked = draft(schema or schema_of(RECORD), format_checker=draft.FORMAT_CHECKER)
    found = checked.iter_errors(record)
    return sorted(".".join(map(str, error.absolute_path)) for error in found)


DEPLOYMENT = """\
defaults:
  deployment:
    data_curators: [Somebody]
    intended_use: for tests
    data_product_type: machine learning model
    data_product_region: Global
    description: A model.
    publication_date: 2024-01-31
    data_product_sector: TECHNOLOGY
    registry_authors: [A. Author]
    model_name: central
    release_type: one release
    data_source_type: static
    access_type: NON_INTERACTIVE
mechanisms:
  gaussian: {steps: 1, dataset_size: 1, batch_size: 1, step_size: 1, noise_std: 2, lipschitz: 1}
  trained: {steps: 10, dataset_size: 100, batch_size: 10, step_size: 0.1, noise_std: 0.1,
    clip_norm: 1.0, convex: false, batching: poisson, relation: add remove, release: all iterates}
claims:
"""


def records(
    folder: Path, claims: str, head: str = DEPLOYMENT
) -> tuple[dict[str, opendp.Record], tuple[Any, ...]]:
    checked = check([write(folder, claims, head=head)], error=0.01)
    assert checked.complaints == ()
    return {r.claim: r for r in opendp.records(checked.judgements)}, checked.judgements


def test_a_whole_record(tmp_path: Path) -> None:
    claims = f"""\
- id: Our.Model
  citation: "Our report, 2024"
  mechanism: gaussian
  points: [{{epsilon: 9, delta: 1e-3}}, {{epsilon: {EPSILON}, delta: 1e-5}}]
  deployment: {{name: A model, notes: "Ours.", privacy_unit: User-level}}
"""
    found, (judged,) = records(tmp_path, claims)
    record = found["Our.Model"]
    assert errors(record.content) == []
    assert record.missing == ()
    assert record.file_name == "our_model.yaml"
    assert (record.content["status"], record.content["tier"]) == ("Draft", 2)
    said = record.content["deployment"]
    assert said["basic"] == {
        "name": "A model",
        "data_curators": ["Somebody"],
        "intended_use": "for tests",
        "data_product_type": "Machine learning model",
        "data_product_region": "Global",
        "description": "A model.",
        "publication_date": "2024-01-31",
        "data_product_sector": "Technology",
    }
    assert said["dp_variant"] == {"variant_name": "Approximate DP"}
    loss = said["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": EPSILON, "delta": 1e-5}
    assert loss["privacy_parameters_details"] == (
        "Claimed: epsilon 9 at delta 0.001; epsilon 4.3772 at delta 1e-5."
    )
    assert loss["privacy_unit"] == "User-level"
    assert loss["privacy_unit_details"].startswith(
        "Neighbouring datasets have n records each and differ in one of them (replace one). n = 1,"
    )
    assert said["deployment_model"]["access_type"] == "Non-interactive"
    assert "lipschitz = 1" in said["implementation"]["mechanisms"]
    administrative = said["administrative"]
    assert administrative["sources"] == "Our report, 2024"
    ours, verdict, certified, meaning, stated = (
        administrative["notes"].replace("\n\n", "\n").split("\n")
    )
    assert ours == "Ours."
    assert verdict.startswith("- Claim `Our.Model` of my.claims.yaml, judged by noisy-sgd-audit ")
    assert verdict.endswith(": consistent.")
    number = re.search(r"epsilon at delta 1e-5: (\S+) \(exact, TwoSidedWalk\)", certified)
    assert number is not None
    assert 4.377 < float(number[1]) <= judged.certified
    assert "it is not a proof of the claim" in meaning
    assert "was not checked" in stated


def test_what_is_not_known_is_marked_and_found_by_the_registry(tmp_path: Path) -> None:
    head = "claims:\n"
    claims = "- {id: x, laws: {laplace: {sensitivity: 1, scale: 2}}, epsilon: 0.5, delta: 0}"
    found, _ = records(tmp_path, claims, head)
    record = found["x"]
    assert errors(record.content) == [
        "deployment.basic.data_product_type",
        "deployment.basic.publication_date",
    ]
    assert record.missing == (
        "name",
        "data_curators",
        "intended_use",
        "data_product_type",
        "data_product_region",
        "description",
        "publication_date",
        "registry_authors",
        "privacy_unit",
    )
    assert record.content["tier"] == 1
    marked = [path for path, text in leaves(record.content) if "PLACEHOLDER" in str(text)]
    assert sorted({path.split(".")[0] for path in marked}) == sorted(record.missing)
    assert "deployment_model" not in record.content["deployment"]  # enumerations without a default


def leaves(node: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    for key, one in node.items() if isinstance(node, dict) else enumerate(node):
        path = f"{name}.{key}" if name and isinstance(key, int) else str(key)
        if isinstance(one, dict | list):
            yield from leaves(one, path if isinstance(one, list) else "")
        else:
            yield path, one


def test_variants_and_parameters(tmp_path: Path) -> None:
    claims = """\
- {id: pure, laws: {laplace: {sensitivity: 1, scale: 2}}, epsilon: 0.5, delta: 0}
- {id: renyi, mechanism: gaussian, renyi: {2: 1.5, 8: 9}, pair: TwoSidedWalk}
- {id: mu, mechanism: gaussian, mu: 1.5, pair: TwoSidedWalk}
- {id: tradeoff, mechanism: gaussian, tradeoff: {0.05: 0.7}, pair: TwoSidedWalk}
- {id: bound, mechanism: trained, bound: accounting.poisson, deltas: [1e-3, 1e-5]}
- {id: lie, mechanism: gaussian, epsilon: 1, delta: 1e-5, pair: TwoSidedWalk}
- {id: far, mechanism: gaussian, not_private: {epsilon: 1, delta: 1e-5}, pair: TwoSidedWalk}
- {id: inapplicable, mechanism: gaussian, bound: at22.b_1, deltas: [1e-5], pair: TwoSidedWalk}
"""
    found, judged = records(tmp_path, claims)
    assert set(found) == {"pure", "renyi", "mu", "tradeoff", "bound", "lie"}
    verdicts = {j.claim.id: j.verdict.value for j in judged}
    assert verdicts["inapplicable"] == "not applicable"
    said = {name: record.content["deployment"] for name, record in found.items()}
    assert {name: one["dp_variant"]["variant_name"] for name, one in said.items()} == {
        "pure": "Pure DP",
        "renyi": "Renyi DP",
        "mu": "Custom",
        "tradeoff": "Custom",
        "bound": "Approximate DP",
        "lie": "Approximate DP",
    }
    loss = {name: one["privacy_loss"] for name, one in said.items()}
    assert loss["pure"]["privacy_parameters"] == {"epsilon": 0.5}
    assert loss["bound"]["privacy_parameters"]["delta"] == 1e-5
    assert said["bound"]["accounting"]["composition"].startswith("Koskela, Jaelkoe, Honkela (2020)")
    for name in ("renyi", "mu", "tradeoff", "lie"):
        assert "privacy_parameters" not in loss[name]
    words = {name: loss[name]["privacy_parameters_details"] for name in loss if name != "pure"}
    assert words["renyi"] == (
        "Claimed: Renyi divergence of order 2 at most 1.5, in both orders; "
        "Renyi divergence of order 8 at most 9, in both orders."
    )
    assert "with mu = 1.5." in words["mu"]
    assert "of at least 0.7 at alpha 0.05." in words["tradeoff"]
    assert words["lie"] == "Refuted, see the notes: epsilon 1 at delta 1e-5."
    notes = said["lie"]["administrative"]["notes"]
    assert ": refuted.\n" in notes
    assert "the privacy parameters are left out" in notes


def test_sampled_evidence_states_its_error(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", draws.normal(1.0, 1.0, 2000))
    np.save(tmp_path / "y.npy", draws.normal(0.0, 1.0, 2000))
    claims = "- {id: x, samples: {x: x.npy, x_prime: y.npy}, epsilon: 0.1, delta: 1e-3}"
    found, (judged,) = records(tmp_path, claims)
    notes = found["x"].content["deployment"]["administrative"]["notes"]
    assert "(from samples, recorded scores; too high with a probability of at most 0.01)" in notes
    assert judged.error == 0.01
    assert "a certified lower bound exceeds the claim" in notes
    assert "how they were recorded was not checked" in notes


def test_a_claim_on_one_record_says_so(tmp_path: Path) -> None:
    claims = """\
- id: third
  mechanism: {steps: 10, dataset_size: 10, batch_size: 1, step_size: 1.0, noise_std: 1.0,
    lipschitz: 1.0, smoothness: 1.0, batching: cyclic}
  bound: fmtt18.theorem_23
  options: {index: 3}
  deltas: [1e-5]
  pair: {kind: TwoSidedWalk, position: 2}
"""
    found, _ = records(tmp_path, claims)
    details = found["third"].content["deployment"]["privacy_loss"]["privacy_unit_details"]
    assert details.endswith(
        "The claim covers only the record of the option index, from 1, index = 3."
    )


def test_the_text_is_what_the_registry_checks(tmp_path: Path) -> None:
    claims = "- {id: x, mechanism: gaussian, mu: 1.5, pair: TwoSidedWalk, citation: 'a: b # \"c\"'}"
    found, _ = records(tmp_path, claims)
    text = found["x"].to_yaml()
    assert yaml.safe_load(text) == found["x"].content
    styles = {token.style for token in yaml.scan(text) if hasattr(token, "style")}
    assert styles <= {None, "|", '"', "'"}  # nothing is folded
    assert not re.search(r"\\\\[^()]", text)
    assert re.fullmatch(r"[a-z0-9_]+\.yaml", found["x"].file_name)


def test_two_records_of_one_name_are_refused(tmp_path: Path) -> None:
    claims = """\
- {id: a.b, mechanism: gaussian, mu: 1.5, pair: TwoSidedWalk}
- {id: A_B, mechanism: gaussian, mu: 1.6, pair: TwoSidedWalk}
"""
    with pytest.raises(
        ValueError, match=r"^url_slug must be one for each record, got a_b.yaml for"
    ):
        records(tmp_path, claims)


@pytest.mark.parametrize(
    ("deployment", "message"),
    [
        (
            "{publication_date: 31 January}",
            "deployment.publication_date must be a date",
        ),
        ("{data_product_type: model}", "deployment.data_product_type must be one of Summary"),
        (
            "{nam: x}",
            "deployment.nam must be left out of a Deployment, got 'x'; did you mean",
        ),
        ("[x]", "deployment must be a mapping, got a list"),
    ],
)
def test_a_slip_in_a_deployment(deployment: str, message: str, tmp_path: Path) -> None:
    claims = f"- {{id: x, mechanism: gaussian, mu: 1,\n   deployment: {deployment}}}"
    (complaint,) = load([write(tmp_path, claims, head=DEPLOYMENT)]).complaints
    assert complaint.message.startswith(message)


def test_the_page_on_editors_shows_a_deployment() -> None:
    page = (Path(__file__).parents[2] / "docs" / "editors.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```yaml\n(defaults:.*?)```", page, re.DOTALL)
    plain = yaml_tree.plain(yaml_tree.parse(shown, Path("page")))
    deployment = decode(Deployment, plain["defaults"]["deployment"])
    assert all(getattr(deployment, name) for name in (*opendp._BASIC, *opendp._TIER_2))


def test_enumerations_are_those_of_the_registry() -> None:
    def values(choice: type[enum.Enum]) -> list[str]:
        return [member.value for member in choice]

    model = DETAILS["deployment_model"]
    assert values(DataProduct) == PRODUCTS
    assert values(Sector) == DETAILS["basic*"]["data_product_sector"]
    assert [*values(TrustModel), "Varies"] == model["model_name"]  # of converted records only
    assert values(ReleaseType) == model["release_type"]
    assert values(DataSource) == model["data_source_type"]
    assert values(Access) == model["access_type"]
    known = {key.rstrip("*") for section in DETAILS.values() for key in section}
    theirs = known - {"variant_name", "privacy_parameters"} | {"url_slug"}
    assert set(Deployment.__dataclass_fields__) == theirs


def test_the_command_writes_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claims = """\
- {id: x, mechanism: gaussian, mu: 1.5, pair: TwoSidedWalk}
- {id: y, mechanism: gaussian, not_private: {epsilon: 1, delta: 1e-5}, pair: TwoSidedWalk}
"""
    path, folder = write(tmp_path, claims, head=DEPLOYMENT), tmp_path / "deployments"
    assert run([str(path), "--registry", str(folder)]) == 0
    assert [file.name for file in folder.iterdir()] == ["x.yaml"]
    assert errors(yaml.safe_load((folder / "x.yaml").read_text(encoding="utf-8"))) == []
    told = capsys.readouterr().err.split("\n")
    assert told[:3] == [
        f"{folder}: 1 record",
        f"{folder}: no record of y",
        f"{folder}: placeholders for name: give them under 'deployment'",
    ]
    assert run([str(path), "--registry", str(path)]) == 2
    assert f"{path}: cannot be written: File exists" in capsys.readouterr().err


@pytest.mark.skipif("DEPLOYMENTS_REGISTRY" not in os.environ, reason="no clone named")
def test_the_schema_in_short_is_the_registrys() -> None:
    """``DEPLOYMENTS_REGISTRY=clone pytest tests/claims/test_opendp.py``."""
    clone = Path(os.environ["DEPLOYMENTS_REGISTRY"])
    text = (clone / "schemas" / "deployments-schema.yaml").read_text(encoding="utf-8")
    theirs, ours = yaml.safe_load(text), schema_of(RECORD)

    def bare(node: Any) -> Any:
        if isinstance(node, list):
            return node
        if "properties" in node:
            parts = {key: bare(one) for key, one in node["properties"].items()}
            required = sorted(node.get("required", ()))
            return {"properties": parts, "required": required, "open": node["additionalProperties"]}
        if "enum" in node:
            return {"enum": node["enum"]}
        return {key: node[key] for key in ("type", "format", "minItems") if key in node}

    assert bare(theirs) == bare(ours)
    for name in ("template", "google_tier_3"):
        file = clone / "tests" / "good_deployments" / f"{name}.yaml"
        assert errors(yaml.safe_load(file.read_text(encoding="utf-8"))) == []
