"""The entry point of the pytest plugin, which every test run loads.

It must not import ``audit``: a project with a module of that name could no longer import its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

SUFFIX = ".claims.yaml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's settings.

    Parameters
    ----------
    parser : pytest.Parser
        The parser of options and ini values.
    """
    parser.addini(
        "claims_error",
        "bound on the probability that samples refute any true claim of a claims file",
        default="0.01",
    )
    parser.getgroup("claims").addoption(
        "--claims-seed",
        type=int,
        default=None,
        metavar="SEED",
        help="seed of all samples, instead of the seeds in the claims files",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect claims files; the first one imports the package.

    Parameters
    ----------
    file_path : pathlib.Path
        The file.
    parent : pytest.Collector
        The collector of its folder.

    Returns
    -------
    pytest.Collector or None
        The collector of a claims file; None for other files.
    """
    if not file_path.name.endswith(SUFFIX):
        return None
    from noisy_sgd_audit.pytest_plugin import ClaimsFile

    collected: pytest.Collector = ClaimsFile.from_parent(parent, path=file_path)
    return collected
