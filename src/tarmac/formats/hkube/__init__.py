"""HKube's algorithm definitions, to and from jobs."""

from tarmac.formats.hkube.reading import (
    HKUBE,
    left_out_for_hkube,
    notes_for_hkube,
    read_hkube,
    write_hkube,
)

__all__ = ["HKUBE", "left_out_for_hkube", "notes_for_hkube", "read_hkube", "write_hkube"]
