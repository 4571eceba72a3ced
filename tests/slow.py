"""Cases of tests that `make test-all` runs and `make test` leaves out."""

from functools import partial

import pytest

slow = partial(pytest.param, marks=pytest.mark.slow)
