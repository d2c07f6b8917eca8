"""The agent on a node: takes one attempt of a task from a file to its end, and writes down how.

Needs Python 3.9 and its standard library alone, for it travels with a run to nodes that have no
more. It is packed into one file, `agent.pyz`, together with `tarmac.processes`.
"""

from tarmac.node.gpu_watch import GpuWatch as GpuWatch
from tarmac.node.packing import agent_file as agent_file
from tarmac.node.packing import place_agent as place_agent
from tarmac.node.packing import small_agent as small_agent
from tarmac.node.packing import write_agent as write_agent
from tarmac.node.plain import plain_units as plain_units
from tarmac.node.pod import RECORD as RECORD
from tarmac.node.pod import STREAMS as STREAMS
from tarmac.node.pod import packed_elements as packed_elements
from tarmac.node.records import AttemptRecord as AttemptRecord
from tarmac.node.records import Cause as Cause
from tarmac.node.records import Chunk as Chunk
from tarmac.node.records import Element as Element
from tarmac.node.records import attempt_file as attempt_file
from tarmac.node.records import fence_file as fence_file
from tarmac.node.records import log_file as log_file
from tarmac.node.records import parse_attempt as parse_attempt
from tarmac.node.records import read_attempt as read_attempt
