"""What other libraries hold, as mechanisms, claims and scores of this package.

One module a library: `audit.adapters.dp_accounting` reads `DpEvent` objects and accountants. The
library itself is imported where an object of it is read or made, and named with its extra where it
is missing. What an object does not say must be given, and what has no counterpart here is refused
by its name.
"""
