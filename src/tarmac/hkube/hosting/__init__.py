"""Hosting of algorithms as in HKube's worker: instances with a websocket that run tasks.

Example:
    >>> from tarmac.hkube.hosting import Timers
    >>> Timers().stop_s
    10.0
"""

from tarmac.hkube.hosting.instances import first_of
from tarmac.hkube.hosting.interface import Calls, Ending, Host, RetryPolicy, Watcher, Why, Work
from tarmac.hkube.hosting.logs import last_line
from tarmac.hkube.hosting.pool import Pool, refuse
from tarmac.hkube.hosting.retries import is_tried_again
from tarmac.hkube.hosting.timers import Timers

__all__ = [
    "Calls",
    "Ending",
    "Host",
    "Pool",
    "RetryPolicy",
    "Timers",
    "Watcher",
    "Why",
    "Work",
    "first_of",
    "is_tried_again",
    "last_line",
    "refuse",
]
