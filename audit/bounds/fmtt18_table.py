"""Table 1 of Feldman et al. (2018), as documentation: rates of excess loss, not of privacy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ExcessLoss:
    """One row of Table 1: a single pass over n records in d dimensions, logarithms left out.

    Attributes
    ----------
    algorithm
        As printed.
    one_task, many_tasks
        Rate of the excess population loss for one task, and for each of k <= n tasks.
    local_epsilon
        What local differential privacy one task has.
    """

    algorithm: str
    one_task: str
    many_tasks: str
    local_epsilon: str


TABLE_1 = (
    ExcessLoss("Noisy SGD + sampling", "sqrt(d/(eps n))", "sqrt(d/(eps n))", "n"),
    ExcessLoss("Noisy SGD", "sqrt(d/(eps^2 n))", "sqrt(d k/(eps^2 n))", "eps"),
    ExcessLoss("Output perturbation", "sqrt(d/(eps^2 n))", "sqrt(d k/(eps^2 n))", "infinite"),
    ExcessLoss("This work", "sqrt(d/(eps^2 n))", "sqrt(d/(eps^2 n))", "eps"),
)
"""As printed. The last row for k tasks rests on Theorem 32, which `fmtt18_dp` corrects by H_n."""
