# SPDX-License-Identifier: Apache-2.0
"""Between arrays of strings and what an engine reads: their bytes in UTF-8 along one more dim, zeros behind each end."""
import numpy as np

from ._errors import InputError


def encode(values, name):
    """An array uint8 (..., bytes) of strings; one that is bytes already stays."""
    # A list of objects stays one: NumPy makes a string of a number between strings.
    array = values if hasattr(values, "dtype") else np.asarray(values, object)
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype.kind not in "UOS":
        raise InputError("the input takes strings", where=f"input '{name}'", why=f"it was given {array.dtype}",
                         hint="give a list of str, or an array of them")
    strings = [_bytes_of(value, name) for value in array.reshape(-1).tolist()]
    width = max([1, *map(len, strings)])
    return np.ndarray((*array.shape, width), np.uint8, b"".join(s.ljust(width, b"\0") for s in strings))


def _bytes_of(value, name):
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    if not isinstance(value, bytes):
        raise InputError("the input takes strings", where=f"input '{name}'", why=f"it was given {value!r}",
                         hint="give a list of str, or an array of them")
    if value.endswith(b"\0"):
        raise InputError("a string with a zero byte at its end cannot be told from one without", where=f"input '{name}'")
    return value


def decode(array):
    """The strings in an array uint8 (..., bytes), as objects."""
    rows = np.ascontiguousarray(array).reshape(int(np.prod(array.shape[:-1], dtype=np.int64)), array.shape[-1])
    strings = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        strings[i] = row.tobytes().rstrip(b"\0").decode("utf-8", "surrogateescape")
    return strings.reshape(array.shape[:-1])
