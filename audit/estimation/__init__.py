"""Lower bounds on privacy loss from samples.

Every bound holds at a stated confidence level. Names are imported on first use; only sequential
audits import Numba.

Two samples of scores. `samples` turns them into a `Question`; a choice of thresholds (`fixed`,
`pilot_split`, `order_statistics`, `simultaneous_band`) certifies tests of it and knows its own
power; `certificates` turns tests into bounds, and `result` is what users hold. Limits of one rate
come from `rate_limits`, regions of two rates from `regions`, tests without a nuisance parameter
from `two_rates`. `planner` finds the number of trials by the choice's power.

Scores. `score_source` reads or draws them; `columns` and `learned_scores` make one number of
several, on a part of the runs that certifies nothing (`scores`).

Other data. One run with many canaries: `one_run_scores` guesses coins, `one_run` bounds the counts
by the theorem of an assumption (`arbitrary_canaries`, `independent_canaries`). Pairs as they come:
`sequential` bets with `betting`. Weighted paths far beyond log n: `rare_events` chooses the event,
`tilted_walk` the proposal, `bounded_draws` bounds the mean.

Verdicts. `judge` compares bounds with claims; `multiple_tests` shares one error among claims;
`group` relates several records to one.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
