"""Messages between HKube's worker and an algorithm: their forms, encodings and storage."""

from tarmac.hkube.protocol.address import Link as Link
from tarmac.hkube.protocol.address import Storage as Storage
from tarmac.hkube.protocol.address import read_link as read_link
from tarmac.hkube.protocol.address import worker_url as worker_url
from tarmac.hkube.protocol.encodings import decode as decode
from tarmac.hkube.protocol.encodings import encode as encode
from tarmac.hkube.protocol.files import read_made as read_made
from tarmac.hkube.protocol.messages import Message as Message
from tarmac.hkube.protocol.messages import ProtocolError as ProtocolError
from tarmac.hkube.protocol.storage import read_stored as read_stored
from tarmac.hkube.protocol.storage import stored_bytes as stored_bytes
from tarmac.hkube.protocol.values import ENCODINGS as ENCODINGS
from tarmac.hkube.protocol.values import MAX_NESTING as MAX_NESTING
from tarmac.hkube.protocol.values import Encoding as Encoding
from tarmac.hkube.protocol.values import dump_value as dump_value
from tarmac.hkube.protocol.values import load_value as load_value
