"""How one training uses several devices: alone, by all-reduce, or with parameters on the CPU."""

from tarmac.training.engine.all_reduce import AllReduce
from tarmac.training.engine.stop_vote import StopVote
from tarmac.training.engine.strategy import Strategy
from tarmac.training.engine.sync_norm import synchronise_norms
from tarmac.training.engine.team import Alone, Team
from tarmac.training.engine.towers import Towers, replicate
from tarmac.training.processes.group import ProcessTeam, join
from tarmac.training.processes.launcher import WORKER, launch
from tarmac.training.processes.rendezvous import Rendezvous, find_rendezvous
from tarmac.training.processes.store import Absent, Board, meet
from tarmac.training.processes.watchdog import OnHang

__all__ = [
    "WORKER",
    "Absent",
    "AllReduce",
    "Alone",
    "Board",
    "OnHang",
    "ProcessTeam",
    "Rendezvous",
    "StopVote",
    "Strategy",
    "Team",
    "Towers",
    "find_rendezvous",
    "join",
    "launch",
    "meet",
    "replicate",
    "synchronise_norms",
]
