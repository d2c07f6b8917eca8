"""Convert texts to tokens, one token per character."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from tarmac.data.base import Dataset
from tarmac.data.token_windows import windows
from tarmac.errors import TarmacError

# Share of the characters to train on, from the beginning, as in nanoGPT. The rest is for the test.
_TRAIN_SHARE = 0.9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text:
    """A text in two parts: training and test tokens.

    Attributes:
        train: Training tokens, int32 ``[num_characters]``, as indices into ``vocabulary``.
        test: Test tokens from the end of the text, int32 ``[num_characters]``, as indices into
            ``vocabulary``.
        vocabulary: Distinct characters of the text, in the order of their code points.
    """

    train: NDArray[np.int32]
    test: NDArray[np.int32]
    vocabulary: str

    def windows(self, name: str, length: int, *, stride: int | None = None) -> Dataset:
        """Return samples of ``length`` characters; targets are shifted by one character.

        Test samples do not overlap.

        Args:
            name: Name of the returned dataset, for records and messages.
            length: Characters per sample, at least 1.
            stride: Characters from the start of a training sample to the start of the next, at
                least 1. Default ``length``.
        """
        return Dataset(
            name=name,
            train=windows(self.train, length, stride=stride),
            test=windows(self.test, length),
        )


def parse_text(content: bytes, where: str) -> NDArray[np.int32]:
    """Return the code points of a text in UTF-8.

    Raises:
        TarmacError: The text is not UTF-8, or empty.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise TarmacError(f"{where} is not UTF-8 text: byte {error.start} is invalid") from error
    if not text:
        raise TarmacError(f"{where} is empty")
    return np.frombuffer(text.encode("utf-32-le"), np.int32)


def cut_text(code_points: NDArray[np.int32]) -> Text:
    """Number the distinct characters, and split the text into training and test tokens."""
    codes, numbers = np.unique(code_points, return_inverse=True)
    tokens: NDArray[np.int32] = numbers.astype(np.int32)
    cut = int(len(tokens) * _TRAIN_SHARE)
    return Text(train=tokens[:cut], test=tokens[cut:], vocabulary="".join(map(chr, codes.tolist())))
