"""Texts as tokens: each character is one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from tarmac.data.base import Dataset
from tarmac.data.token_windows import windows
from tarmac.errors import TarmacError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Of the characters, from the first; the rest is scored. As nanoGPT cuts it.
_TRAIN_SHARE = 0.9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text:
    """A text, cut in two.

    Attributes:
        train: int32 ``[num_characters]``, to train on: each a place in ``vocabulary``.
        test: int32 ``[num_characters]``, to score: the end of the text, as places in
            ``vocabulary``.
        vocabulary: The characters that occur, in the order of their code points.
    """

    train: NDArray[np.int32]
    test: NDArray[np.int32]
    vocabulary: str

    def windows(self, name: str, length: int, *, stride: int | None = None) -> Dataset:
        """Return samples of so many characters, whose targets are the ones that follow.

        Those to be scored do not overlap.

        Args:
            name: Name of the returned dataset, for records and messages.
            length: Characters per sample, at least 1.
            stride: From the beginning of a sample to train on to that of the next; by default
                ``length``.
        """
        return Dataset(
            name=name,
            train=windows(self.train, length, stride=stride),
            test=windows(self.test, length),
        )


def parse_text(content: bytes, where: str) -> NDArray[np.int32]:
    """Return the code points of a text in UTF-8.

    Raises:
        TarmacError: It is not UTF-8, or empty.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise TarmacError(f"{where} is no text in UTF-8: byte {error.start} is not") from error
    if not text:
        raise TarmacError(f"{where} is empty")
    return np.frombuffer(text.encode("utf-32-le"), np.int32)


def cut_text(code_points: NDArray[np.int32]) -> Text:
    """Number the characters that occur, and cut the text in two."""
    codes, numbers = np.unique(code_points, return_inverse=True)
    tokens: NDArray[np.int32] = numbers.astype(np.int32)
    cut = int(len(tokens) * _TRAIN_SHARE)
    return Text(train=tokens[:cut], test=tokens[cut:], vocabulary="".join(map(chr, codes.tolist())))
