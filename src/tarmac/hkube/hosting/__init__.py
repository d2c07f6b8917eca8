"""Hosts algorithms as HKube's worker does: a websocket for each, started, fed and ended.

Example:
    >>> from tarmac.hkube.hosting import Timers
    >>> Timers().stop_s
    10.0
"""

from tarmac.hkube.hosting.instances import first_of as first_of
from tarmac.hkube.hosting.interface import Calls as Calls
from tarmac.hkube.hosting.interface import Ending as Ending
from tarmac.hkube.hosting.interface import Host as Host
from tarmac.hkube.hosting.interface import RetryPolicy as RetryPolicy
from tarmac.hkube.hosting.interface import Watcher as Watcher
from tarmac.hkube.hosting.interface import Why as Why
from tarmac.hkube.hosting.interface import Work as Work
from tarmac.hkube.hosting.logs import last_line as last_line
from tarmac.hkube.hosting.pool import Pool as Pool
from tarmac.hkube.hosting.pool import refuse as refuse
from tarmac.hkube.hosting.retries import is_tried_again as is_tried_again
from tarmac.hkube.hosting.timers import Timers as Timers
