"""How one training uses several devices: alone, by all-reduce, or with parameters on the CPU."""

from tarmac.train.strategies._all_reduce import AllReduce
from tarmac.train.strategies._board import Absent, Board, meet
from tarmac.train.strategies._launch import WORKER, launch
from tarmac.train.strategies._process_team import ProcessTeam, join
from tarmac.train.strategies._rendezvous import Rendezvous, find_rendezvous
from tarmac.train.strategies._stop_vote import StopVote
from tarmac.train.strategies._strategy import Strategy
from tarmac.train.strategies._sync_norm import synchronise_norms
from tarmac.train.strategies._team import Alone, Team
from tarmac.train.strategies._towers import Towers, replicate
from tarmac.train.strategies._watch import OnHang

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
