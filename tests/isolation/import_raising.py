"""A module that raises an uncaught exception when imported."""

raise BaseException("no module\nof yours")
