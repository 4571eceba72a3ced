"""Lower bounds on privacy loss from samples.

Every bound holds at a stated confidence level. Names are imported on first use; only sequential
audits import Numba.

Two samples of scores. `samples` turns them into a `Question`; a choice of thresholds (those fixed
in advance in `thresholds`, `pilot_split`, `order_statistics`, `simultaneous_band`) certifies tests
of it and knows its own power, by which `samples` also plans the number of trials. Limits of one
rate come from `rate_limits`, regions of two rates from `regions`; `evidence` turns tests into
bounds, and `result` is what users hold, also for pairs that differ in several records.

Scores. `score_source` reads or draws them, and makes one number of several, if need be by learned
`scores`, on a part of the runs that certifies nothing.

Other data. One run with many canaries: `one_run_scores` guesses coins, `one_run` bounds the counts
by the theorem of an assumption. Pairs as they come: `sequential` bets. Weighted paths far beyond
log n: `rare_events`.

Verdicts. `judge` compares bounds with claims; `verdicts` shares one error among claims.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
