"""The user's own datasets: tables, arrays and folders of images, stored under a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.lazy import lazy_names

if TYPE_CHECKING:
    from tarmac.data.own.images import read_image as read_image
    from tarmac.data.own.store import OwnRecord as OwnRecord
    from tarmac.data.own.store import load_own as load_own
    from tarmac.data.own.store import own_names as own_names
    from tarmac.data.own.store import own_record as own_record
    from tarmac.data.own.table_values import TableColumns as TableColumns
    from tarmac.data.own.taking import Taking as Taking
    from tarmac.data.own.taking import take_over as take_over
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
