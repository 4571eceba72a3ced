"""Panels, transfer operators and stable special functions: no privacy in here."""
