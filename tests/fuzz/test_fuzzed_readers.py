"""Every reader takes mutants of real files, or refuses them in words.

`make test` reads 2,000 mutants, `make test-fuzz` 100,000; `TARMAC_FUZZ_SEED=7` draws others. A
mutant that fails is in a file that the failure names: keep it in `corpus/READER/`, in every run.
"""

from __future__ import annotations

import itertools
import resource
import shutil
from pathlib import Path

import pytest
from fuzzed_readers import all_readers

from mutants import mutant_of

READERS = all_readers()
NUM_MUTANTS = 2_000
NUM_MUTANTS_AT_NIGHT = 100_000

# `make test-fuzz` reads the mutants of a reader in so many tests.
NUM_PARTS = 4

# What a reader may take beside what the tests have.
MAX_BYTES = 2**31

CORPUS = Path(__file__).parent / "corpus"
KEPT = sorted(str(path.relative_to(CORPUS)) for path in CORPUS.glob("*/*"))


def count_of(name: str, total: int) -> int:
    """Return how many of the mutants of all readers are one's."""
    return -(-total * READERS[name].share // sum(reader.share for reader in READERS.values()))


@pytest.fixture(autouse=True)
def _memory_has_an_end():
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MAX_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def read_mutants(name: str, numbers: range, directory: Path) -> None:
    """Read mutants of a reader's samples in turn; keep one that fails."""
    reader = READERS[name]
    samples = itertools.cycle(reader.samples().items())
    for number in numbers:
        sample, content = next(samples)
        mutant = mutant_of(content, f"{name} {sample}", number)
        try:
            reader.read(reader.wrap(mutant), directory)
        except reader.allowed:
            continue
        except Exception as error:
            kept = directory.with_name(f"mutant-{number}-of-{Path(sample).name}")
            kept.write_bytes(mutant)
            error.add_note(f"The mutant is {kept}; keep it: {CORPUS}/{name}/")
            raise


@pytest.fixture
def directory(tmp_path):
    """Return a directory that is one reader's."""
    path = tmp_path / "of-the-reader"
    path.mkdir()
    return path


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", READERS)
def test_a_mutant_of_what_is_read_is_refused_in_words(name, directory):
    read_mutants(name, range(count_of(name, NUM_MUTANTS)), directory)


@pytest.mark.fuzz
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("part", range(NUM_PARTS))
@pytest.mark.parametrize("name", READERS)
def test_ten_thousands_of_mutants_are_refused_in_words(name, part, directory):
    count = count_of(name, NUM_MUTANTS_AT_NIGHT)
    start = NUM_MUTANTS + count * part // NUM_PARTS
    read_mutants(name, range(start, NUM_MUTANTS + count * (part + 1) // NUM_PARTS), directory)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("path", KEPT)
def test_what_was_once_read_wrongly_is_refused_in_words(path, directory):
    reader = READERS[Path(path).parent.name]
    try:
        reader.read(reader.wrap((CORPUS / path).read_bytes()), directory)
    except reader.allowed:
        return


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", READERS)
def test_the_samples_that_are_mutated_are_read(name, directory):
    reader = READERS[name]
    samples = reader.samples()
    assert samples
    for content in samples.values():
        shutil.rmtree(directory)
        directory.mkdir()
        try:
            reader.read(reader.wrap(content), directory)
        except reader.allowed:
            if not reader.is_refused:
                raise
