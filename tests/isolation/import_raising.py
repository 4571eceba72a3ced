"""A module that raises what nobody catches."""

raise BaseException("no module\nof yours")
