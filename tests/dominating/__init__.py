"""Tests of the dominating pairs."""
