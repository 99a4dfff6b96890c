# SPDX-License-Identifier: Apache-2.0
"""What a command line says of inputs: shapes, files, and made-up values for the others."""
import pathlib

import numpy as np

from ._core import image
from ._errors import InputError

PICTURES = (".jpg", ".jpeg", ".png", ".bmp")


def parse_shapes(text):
    """"x:1x3x8x8,y:4" as {"x": (1, 3, 8, 8), "y": (4,)}."""
    shapes = {}
    for part in filter(None, text.split(",")):
        name, _, dims = part.rpartition(":")
        if not name or not all(d.isdigit() for d in dims.split("x")):
            raise InputError(f"'{part}' is no shape of an input", where="--shapes", hint="for example input:1x3x224x224")
        shapes[name] = tuple(int(d) for d in dims.split("x"))
    return shapes


def shapes_of(inputs, given):
    """Each input's shape: the given one, or 1 for each dynamic dim (224 for height and width of pictures)."""
    names = [t.name for t in inputs]
    for name in given:
        if name not in names:
            raise InputError(f"the model has no input '{name}'", where="--shapes", hint="its inputs are " + ", ".join(names))
    return {t.name: given.get(t.name) or _usual_shape(t.shape) for t in inputs}


def _usual_shape(shape):
    is_picture = len(shape) == 4 and shape[1] in (1, 3)
    return tuple(d if d != -1 else 224 if is_picture and i >= 2 else 1 for i, d in enumerate(shape))


def make_inputs(inputs, shapes, files, preprocess="imagenet"):
    """An array for each input: of a file [NAME:]FILE, or made up: floats are normal, integers ones."""
    given = dict(_named(inputs, text) for text in files)
    rng = np.random.default_rng(0)
    return {t.name: _read(given[t.name], t, shapes[t.name], preprocess) if t.name in given else _made_up(t, shapes[t.name], rng)
            for t in inputs}


def _named(inputs, text):
    names = [t.name for t in inputs]
    name, _, file = text.rpartition(":")
    if not name:
        if len(inputs) != 1:
            raise InputError(f"the model has {len(inputs)} inputs: say which one '{text}' is for", where="--input",
                             hint="NAME:FILE with one of " + ", ".join(names))
        name = names[0]
    if name not in names:
        raise InputError(f"the model has no input '{name}'", where="--input", hint="its inputs are " + ", ".join(names))
    return name, file


def _read(file, info, shape, preprocess):
    path = pathlib.Path(file)
    if path.suffix.lower() in PICTURES:
        return image(file, "pixels" if info.dtype == "uint8" else preprocess, list(shape), info.dtype)
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            if info.name not in arrays:
                raise InputError(f"it has no array '{info.name}'", where=file, hint="it has " + ", ".join(arrays))
            return arrays[info.name]
    raise InputError("it is neither a picture nor .npy nor .npz", where=file)


def _made_up(info, shape, rng):
    if info.dtype.startswith("float"):
        return rng.standard_normal(shape, np.float32).astype(info.dtype)
    return np.ones(shape, info.dtype)
