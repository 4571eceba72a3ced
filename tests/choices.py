"""Choices of a mechanism that all parts of the package support by default."""

from __future__ import annotations

from audit.mechanism import COVERED_BY_DEFAULT, Batching, Relation, Release

BATCHINGS = [choice for choice in Batching if choice in COVERED_BY_DEFAULT]
RELATIONS = [choice for choice in Relation if choice in COVERED_BY_DEFAULT]
RELEASES = [choice for choice in Release if choice in COVERED_BY_DEFAULT]
