"""Other systems' job files, read into Tarmac's `Job` and written back."""

from tarmac.formats._detect import Reading, read_any
from tarmac.formats._hkube import read_hkube, write_hkube

__all__ = ["Reading", "read_any", "read_hkube", "write_hkube"]
