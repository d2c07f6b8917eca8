"""The pages by address, and the states that show whether a page may have changed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qsl, unquote_to_bytes

from tarmac.errors import TarmacError
from tarmac.monitor import Snapshot
from tarmac.pages import Page, Section, message
from tarmac.run_kinds import load_kind
from tarmac.server.gpus import gpus_page
from tarmac.server.listing import Listing, RunLister
from tarmac.server.logs import log_names, log_page, log_section, way_back
from tarmac.server.run_list import ListQuery, run_list_page

_LISTS = {"/": "", "/jobs": "job", "/searches": "search"}

# Folders of a job's run whose subfolders have pages.
_PARTS = ("tasks", "instances")


class NoSuchPageError(TarmacError):
    """No page exists at an address."""


@dataclasses.dataclass(frozen=True)
class Address:
    """The path and query of a request.

    Attributes:
        path: Decoded path, such as ``/runs/a study/``.
        query: Keys and values as pairs, in their order.
    """

    path: str
    query: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, raw_path: bytes, query: bytes) -> Address:
        """Parse the parts of a request; paths may have bytes that are not UTF-8."""
        pairs = parse_qsl(query.decode("ascii", "replace"), errors="surrogateescape")
        return cls(os.fsdecode(unquote_to_bytes(raw_path)), tuple(pairs))

    def first(self, key: str) -> str:
        """Return the first value of a key; empty if the key is missing."""
        return next((value for name, value in self.query if name == key), "")

    def all(self, key: str) -> list[str]:
        """Return the values of a key, without repetitions."""
        return [*dict.fromkeys(value for name, value in self.query if name == key)]


class Site:
    """All pages, made from the runs as they are now; for any number of threads.

    Args:
        lister: Lister of the runs in the output directory.
        page_of: Makes the page of a run, of a job's task, or of several runs side by side, from
            their directories.
        look: Returns a snapshot of the GPUs.
    """

    def __init__(
        self,
        lister: RunLister,
        page_of: Callable[[Sequence[Path]], Page],
        look: Callable[[], Snapshot],
    ) -> None:
        self._lister = lister
        self._page_of = page_of
        self._look = look

    def page(self, address: Address) -> Page:
        """Return the page at an address.

        Raises:
            NoSuchPageError: The address has no page, or its run was removed.
        """
        listing = self._lister.list()
        if address.path in _LISTS:
            query = ListQuery(
                path=address.path,
                kind=_LISTS[address.path],
                text=address.first("q"),
                number=_number(address.first("page")),
            )
            return run_list_page(listing, query, str(self._lister.output.resolve()))
        if address.path == "/gpus":
            return gpus_page(self._look(), listing.runs.keys())
        if address.path == "/compare":
            return self._comparison(listing, address.all("run"))
        name, rest = _split_run(address.path, listing)
        run = listing.path(name)
        assert run is not None
        try:
            return self._page_of_run(listing, name, run, rest, address)
        except NoSuchPageError:
            raise
        except (TarmacError, OSError) as error:
            if not os.path.lexists(run):
                raise NoSuchPageError(f"{name} has been removed") from error
            return _damaged(name, str(error), *self._printed(listing, name, run))

    def state(self, address: Address) -> object:
        """Return a value that differs whenever the page at an address may differ; it is cheap."""
        listing = self._lister.list()
        if address.path in _LISTS:
            return listing
        if address.path == "/gpus":
            return self._look().at
        if address.path == "/compare":
            names = address.all("run")
        else:
            names = [_split_run(address.path, listing)[0]]
        runs = [listing.runs.get(name) or listing.broken.get(name) for name in names]
        shown = [run.path for run in runs if run is not None]
        if address.path != "/compare":
            _, rest = _split_run(address.path, listing)
            shown += [shown[0] / part for part in (rest, address.first("file")) if _is_below(part)]
        return runs, [_looks(path) for path in shown]

    def _page_of_run(
        self, listing: Listing, name: str, run: Path, rest: str, address: Address
    ) -> Page:
        if name in listing.broken:
            return _damaged(name, listing.broken[name].reason)
        logs = self._logs(listing, name, run)
        if rest == "log":
            chosen = address.first("file") or _first_with_text(logs)
            if chosen not in logs:
                raise NoSuchPageError(f"{name} has no log {chosen!r}")
            return log_page(name, run, logs, chosen)
        kind, _, part = rest.rstrip("/").partition("/")
        if kind in _PARTS and part and "/" not in part:
            directory = run / kind / part
            if not (_is_below(part) and directory.is_dir() and _is_inside(directory, run)):
                raise NoSuchPageError(f"{name} has no task {part!r}")
            return _with_way_back(self._page_of([directory]), name)
        if rest:
            raise NoSuchPageError(f"{name} has no page {rest!r}")
        page = self._page_of([run])
        printed = log_section(name, [*logs], _PARTS)
        return dataclasses.replace(page, sections=[*page.sections, printed])

    def _comparison(self, listing: Listing, names: Sequence[str]) -> Page:
        paths = {name: listing.runs[name].path for name in names if name in listing.runs}
        missing = [name for name in names if name not in paths]
        if missing:
            raise NoSuchPageError(f"there is no run {missing[0]!r} that can be read")
        kinds = {listing.runs[name].kind for name in names}
        if len(names) < 2 or len(kinds) > 1:
            few = "Choose at least two runs in the list." if len(names) < 2 else ""
            mixed = f"Runs of one kind can be compared, not {' and '.join(sorted(kinds))}."
            section = Section("problem", "What is wrong", message("warn", few or mixed))
            return Page(title="Compare", sections=[section])
        try:
            return self._page_of([*paths.values()])
        except TarmacError as error:
            return _damaged("Compare", str(error))

    def _printed(self, listing: Listing, name: str, run: Path) -> Sequence[Section]:
        """Return the section of a run's logs, which may explain why its records are unreadable."""
        with contextlib.suppress(TarmacError, OSError):
            if logs := self._logs(listing, name, run):
                return [log_section(name, [*logs], _PARTS)]
        return []

    def _logs(self, listing: Listing, name: str, run: Path) -> dict[str, Path]:
        summary = listing.runs.get(name)
        return {} if summary is None else log_names(run, load_kind(summary.kind).logs(run))


def _first_with_text(logs: Mapping[str, Path]) -> str:
    written = (name for name, file in logs.items() if any(size for _, _, size in _looks(file)))
    return next(written, next(iter(logs), ""))


def _is_below(part: str) -> bool:
    """Return whether a relative path stays below its start, by its text alone."""
    return bool(part) and not {"", ".", ".."} & {*part.rstrip("/").split("/")} and "\0" not in part


def _is_inside(path: Path, directory: Path) -> bool:
    """Return whether a path is in a directory after all links are resolved."""
    return os.path.realpath(path).startswith(f"{os.path.realpath(directory)}/")


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 and int(text) else 1


def _split_run(path: str, listing: Listing) -> tuple[str, str]:
    """Return the run of an address, by the longest name that matches, and the rest."""
    if path.startswith("/runs/"):
        parts = path.removeprefix("/runs/").split("/")
        for end in range(len(parts), 0, -1):
            name = "/".join(parts[:end])
            if listing.path(name) is not None:
                return name, "/".join(parts[end:])
    raise NoSuchPageError(f"there is nothing at {path}")


def _with_way_back(page: Page, name: str) -> Page:
    return dataclasses.replace(page, head=way_back(name) + page.head)


def _damaged(name: str, reason: str, *more: Section) -> Page:
    problem = Section("problem", "What is wrong", message("bad", reason))
    return Page(title=name, status="cannot be read", state="bad", sections=[problem, *more])


def _looks(path: Path) -> list[tuple[str, int, int]]:
    """Return name, time and size of a file, or of a directory's files: a run's writes change it."""
    try:
        if not path.is_dir():
            files = [("", path.lstat())]
        else:
            with os.scandir(path) as entries:
                files = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except OSError:
        return []
    return sorted((name, status.st_mtime_ns, status.st_size) for name, status in files)
