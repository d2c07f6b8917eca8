"""The live pages of all runs, for this user alone: `tarmac serve`.

`Site` makes the pages. `Streams` sends changes to browsers. `AccessGuard` decides who may see the
pages. `tarmac.pages` makes the pages of runs.
"""

from tarmac.server.access import AccessGuard, Verdict
from tarmac.server.verb import Serving, serve

__all__ = ["AccessGuard", "Serving", "Verdict", "serve"]
