"""Run a scenario: exact laws, samples and claimed bounds on one line."""

from audit.scenario.definition import Scenario, Setting
from audit.scenario.run import run
from audit.scenario.store import RunFolder

__all__ = ["RunFolder", "Scenario", "Setting", "run"]
