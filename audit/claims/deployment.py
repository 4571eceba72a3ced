"""Facts about a deployment that a registry's record needs and a claim does not contain."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date

from audit import validate


class DataProduct(enum.Enum):
    """The type of a data product."""

    SUMMARY_STATISTICS = "Summary statistics"
    MACHINE_LEARNING_MODEL = "Machine learning model"
    DATASET = "Dataset"
    SYNTHETIC_DATA = "Synthetic data"
    INTERACTIVE_API = "Interactive API"
    SQL_QUERIES = "SQL queries"


class Sector(enum.Enum):
    """The domain that a data product describes."""

    TECHNOLOGY = "Technology"
    HEALTHCARE = "Healthcare"
    EDUCATION = "Education"
    GOVERNMENT = "Government"
    ENERGY = "Energy"
    FINANCE = "Finance"


class TrustModel(enum.Enum):
    """The parties that the data subjects must trust."""

    LOCAL = "Local"
    CENTRAL = "Central"
    SHUFFLE = "Shuffle"
    FEDERATED = "Federated"


class ReleaseType(enum.Enum):
    """Whether the data product is published once or repeatedly."""

    ONE = "One release"
    MANY = "Many releases"


class DataSource(enum.Enum):
    """Whether new data arrive over time."""

    STATIC = "Static"
    DYNAMIC = "Dynamic"


class Access(enum.Enum):
    """Whether the data can be queried under differential privacy."""

    INTERACTIVE = "Interactive"
    NON_INTERACTIVE = "Non-interactive"


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Facts about a deployment for its record in the OpenDP deployments registry.

    The names are those of the registry's schema; `audit.claims.opendp` writes the record. If the
    record has generated text (``privacy_unit_details``, ``composition``, ``mechanisms``,
    ``sources``, ``notes``), the text given here precedes it.

    Parameters
    ----------
    url_slug
        The record's address; by default derived from the claim's id.
    name
        Name of the data product.
    data_curators
        The organisations that publish it.
    intended_use
        Its purpose.
    data_product_type
        Its type.
    data_product_region
        The region that the data describe, or whose laws apply.
    description
        A short description.
    publication_date
        Date of first publication, YYYY-MM-DD.
    data_product_sector
        The industry or domain.
    data_domain
        The datasets that are protected.
    unprotected_quantities
        Quantities that are released without protection.
    privacy_unit
        The unit whose data differs between neighbouring datasets, such as "User-level"; a claim
        refers to records only.
    privacy_unit_details
        The exact definition of neighbouring datasets.
    privacy_parameters_details
        Further details of the parameters.
    model_name
        The parties that the data subjects must trust.
    model_name_details, actors
        The participants, and the assumptions about them.
    release_type, release_type_details
        Whether it is published once.
    data_source_type, data_source_type_details
        Whether new data arrive.
    access_type, access_type_details
        Whether it can be queried.
    post_processing
        Processing of the outputs.
    composition
        How privacy loss is composed.
    preprocessing_and_hyperparameter_tuning
        Earlier processing of the data, and whether its privacy loss was accounted for.
    mechanisms
        The mechanisms and their implementation.
    justification
        Reasons for these choices.
    sources
        White papers and other sources.
    notes
        Anything else.
    registry_authors
        The authors of the record.
    """

    url_slug: str | None = None
    name: str | None = None
    data_curators: tuple[str, ...] = ()
    intended_use: str | None = None
    data_product_type: DataProduct | None = None
    data_product_region: str | None = None
    description: str | None = None
    publication_date: str | None = None
    data_product_sector: Sector | None = None
    data_domain: str | None = None
    unprotected_quantities: str | None = None
    privacy_unit: str | None = None
    privacy_unit_details: str | None = None
    privacy_parameters_details: str | None = None
    model_name: TrustModel | None = None
    model_name_details: str | None = None
    actors: str | None = None
    release_type: ReleaseType | None = None
    release_type_details: str | None = None
    data_source_type: DataSource | None = None
    data_source_type_details: str | None = None
    access_type: Access | None = None
    access_type_details: str | None = None
    post_processing: str | None = None
    composition: str | None = None
    preprocessing_and_hyperparameter_tuning: str | None = None
    mechanisms: str | None = None
    justification: str | None = None
    sources: str | None = None
    notes: str | None = None
    registry_authors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.publication_date is not None:
            try:
                date.fromisoformat(self.publication_date)
            except ValueError:
                raise validate.fail(
                    "publication_date", "a date, YYYY-MM-DD", self.publication_date
                ) from None
