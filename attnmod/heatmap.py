"""A matrix as coloured cells in a terminal, or as plain text."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from typing import TextIO

import numpy as np
from numpy.typing import ArrayLike

# Viridis in four even steps: from dark to bright, so that it reads in grey and to the colour-blind.
_SCALE = np.array([(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)])
# The red, green and blue levels of the 6 x 6 x 6 cube in the palette of 256 colours.
_CUBE = np.array([0, 95, 135, 175, 215, 255])


def color_count(stream: TextIO) -> int:
    """How many colours text on a stream may have: 0, 256 or 2**24.

    0, plain text, where the stream is no terminal, where ``TERM`` is dumb or not set, and where
    ``NO_COLOR`` is set (https://no-color.org).
    """
    if not stream.isatty() or os.environ.get("NO_COLOR"):
        return 0
    if os.environ.get("TERM", "dumb") == "dumb":
        return 0
    return 2**24 if os.environ.get("COLORTERM") in ("truecolor", "24bit") else 256


def heatmap(
    matrix: ArrayLike, rows: Sequence[str], columns: Sequence[str], *, colors: int = 0
) -> str:
    """The matrix as text: its numbers in cells, brighter for more, between labels.

    Parameters
    ----------
    matrix : (len(rows), len(columns)) array
        What is not finite is not coloured.
    rows, columns : sequences of str
        The labels. Wide characters take two places; control characters are shown escaped.
    colors : int
        0 for plain text, 256 or 2**24: see `color_count`.

    Examples
    --------
    >>> from attnmod.heatmap import heatmap
    >>> print(heatmap([[0.75, 0.25], [0.5, 0.5]], ["first", "second"], ["one", "two"]))
               one     two
     first  0.7500  0.2500
    second  0.5000  0.5000
    """
    numbers = np.asarray(matrix, np.float64)
    if numbers.shape != (len(rows), len(columns)):
        raise ValueError(
            f"matrix: expected shape {(len(rows), len(columns))} of the labels, got {numbers.shape}"
        )
    row_labels, column_labels = ([_printable(label) for label in x] for x in (rows, columns))
    texts = [[f"{x:.4f}" for x in row] for row in numbers]
    size = max(map(display_width, [*column_labels, *(text for row in texts for text in row)]))
    margin = max(map(display_width, row_labels), default=0)

    lines = [" " * margin + " " + "".join(f" {_right(label, size)} " for label in column_labels)]
    for label, row, cells in zip(row_labels, _shares(numbers), texts, strict=True):
        colored = (
            _paint(f" {_right(text, size)} ", share, colors)
            for share, text in zip(row, cells, strict=True)
        )
        lines.append(f"{_right(label, margin)} {''.join(colored)}")
    return "\n".join(line.rstrip() for line in lines)


def display_width(text: str) -> int:
    """The columns that text takes in a terminal: 2 for a wide character, 0 for one that combines.

    Examples
    --------
    >>> from attnmod.heatmap import display_width
    >>> display_width("word"), display_width("注意力"), display_width("e\\u0301")
    (4, 6, 1)
    """
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _printable(label: str) -> str:
    """The label with its control characters escaped, as a token "\\n" or an escape sequence has."""
    return "".join(
        repr(character)[1:-1] if unicodedata.category(character) == "Cc" else character
        for character in label
    )


def _right(text: str, size: int) -> str:
    return " " * (size - display_width(text)) + text


def _shares(numbers: np.ndarray) -> np.ndarray:
    """Where each number stands from the least, 0, to the largest, 1; NaN if it is not finite."""
    finite = np.isfinite(numbers)
    least = np.min(numbers, where=finite, initial=np.inf)
    largest = np.max(numbers, where=finite, initial=-np.inf)
    shares = np.full(numbers.shape, np.nan)
    np.subtract(numbers, least, out=shares, where=finite)
    return shares / (largest - least) if largest > least else shares


def _paint(text: str, share: float, colors: int) -> str:
    if colors == 0 or np.isnan(share):
        return text
    steps = np.linspace(0, 1, len(_SCALE))
    red, green, blue = (round(float(np.interp(share, steps, channel))) for channel in _SCALE.T)
    bright = 0.299 * red + 0.587 * green + 0.114 * blue > 128
    if colors == 256:  # the cube comes after the 16 colours of old; its corners are black and white
        r, g, b = (int(np.abs(_CUBE - channel).argmin()) for channel in (red, green, blue))
        ground = f"48;5;{16 + 36 * r + 6 * g + b}"
        ink = "38;5;16" if bright else "38;5;231"
    else:
        ground = f"48;2;{red};{green};{blue}"
        ink = "38;2;0;0;0" if bright else "38;2;255;255;255"
    return f"\x1b[{ground};{ink}m{text}\x1b[0m"
