"""YAML, JSON and TOML files that know where their values are; amounts as people write them.

Example:
    >>> from tarmac.documents import parse_document
    >>> document = parse_document("{memory: 4GiB}", "job.yaml")
    >>> document.value, document.place_of(("memory",))
    ({'memory': '4GiB'}, Place(line=1, column=2))
"""

from tarmac.documents.changes import change_document as change_document
from tarmac.documents.document import EXTENSIONS as EXTENSIONS
from tarmac.documents.document import Document as Document
from tarmac.documents.document import Path as Path
from tarmac.documents.document import Place as Place
from tarmac.documents.document import show_path as show_path
from tarmac.documents.document import without_extensions as without_extensions
from tarmac.documents.parsing import parse_document as parse_document
from tarmac.documents.parsing import read_document as read_document
from tarmac.documents.parsing import read_text as read_text
from tarmac.documents.plain import place_in as place_in
from tarmac.documents.plain import read_plain as read_plain
from tarmac.documents.problems import Problem as Problem
from tarmac.documents.problems import problems_of as problems_of
from tarmac.documents.problems import refuse as refuse
from tarmac.documents.quantities import Bytes as Bytes
from tarmac.documents.quantities import Count as Count
from tarmac.documents.quantities import Cpus as Cpus
from tarmac.documents.quantities import Number as Number
from tarmac.documents.quantities import Seconds as Seconds
from tarmac.documents.quantities import Whole as Whole
from tarmac.documents.quantities import parse_bytes as parse_bytes
from tarmac.documents.quantities import parse_cpus as parse_cpus
from tarmac.documents.quantities import parse_seconds as parse_seconds
from tarmac.documents.toml import parse_toml as parse_toml
from tarmac.documents.toml import read_toml as read_toml
from tarmac.documents.writing import dump_document as dump_document
