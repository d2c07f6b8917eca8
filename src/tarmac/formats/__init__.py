"""Job files of all systems: read into Tarmac's `Job`, and written where a system still takes them.

Example:
    >>> from tarmac.documents import parse_document
    >>> read_any(parse_document("{name: hello, command: [echo, hello]}", "job.yaml")).format
    'tarmac'
    >>> format_names()[:4]
    ('tarmac', 'shipyard', 'hkube', 'skypilot')
"""

from tarmac.formats.format import Format as Format
from tarmac.formats.format import Reading as Reading
from tarmac.formats.format import Unwritable as Unwritable
from tarmac.formats.format import Written as Written
from tarmac.formats.hkube import DATA_SOURCE as DATA_SOURCE
from tarmac.formats.hkube import FLOW_INPUT as FLOW_INPUT
from tarmac.formats.hkube import MAX_ELEMENTS as MAX_ELEMENTS
from tarmac.formats.hkube import Algorithm as Algorithm
from tarmac.formats.hkube import Edge as Edge
from tarmac.formats.hkube import HyperParam as HyperParam
from tarmac.formats.hkube import InputError as InputError
from tarmac.formats.hkube import Node as Node
from tarmac.formats.hkube import Options as Options
from tarmac.formats.hkube import Pipeline as Pipeline
from tarmac.formats.hkube import Protocol as Protocol
from tarmac.formats.hkube import Reference as Reference
from tarmac.formats.hkube import Retry as Retry
from tarmac.formats.hkube import TunerSpec as TunerSpec
from tarmac.formats.hkube import cluster_faults as cluster_faults
from tarmac.formats.hkube import left_out_for_hkube as left_out_for_hkube
from tarmac.formats.hkube import merged as merged
from tarmac.formats.hkube import notes_for_hkube as notes_for_hkube
from tarmac.formats.hkube import read_algorithm as read_algorithm
from tarmac.formats.hkube import read_hkube as read_hkube
from tarmac.formats.hkube import read_pipeline as read_pipeline
from tarmac.formats.hkube import read_raw_batch as read_raw_batch
from tarmac.formats.hkube import read_reference as read_reference
from tarmac.formats.hkube import read_tuner_spec as read_tuner_spec
from tarmac.formats.hkube import references as references
from tarmac.formats.hkube import takes_flow_input as takes_flow_input
from tarmac.formats.hkube import task_id_fault as task_id_fault
from tarmac.formats.hkube import value_at as value_at
from tarmac.formats.hkube import with_input as with_input
from tarmac.formats.hkube import write_hkube as write_hkube
from tarmac.formats.reader import is_own as is_own
from tarmac.formats.reader import read_any as read_any
from tarmac.formats.reader import read_paths as read_paths
from tarmac.formats.reader import read_the_job as read_the_job
from tarmac.formats.registry import all_formats as all_formats
from tarmac.formats.registry import find_format as find_format
from tarmac.formats.registry import format_names as format_names
from tarmac.formats.shipyard import read_shipyard as read_shipyard
