"""The pages of all runs, served live to this user and to nobody else: `tarmac serve`.

`Site` makes pages of what is there, `Streams` tells browsers what changes in them, `AccessGuard`
says who may see them. The pages of runs are those of `tarmac.pages`.
"""

from tarmac.server.access import AccessGuard, Verdict
from tarmac.server.verb import Serving, serve

__all__ = ["AccessGuard", "Serving", "Verdict", "serve"]
