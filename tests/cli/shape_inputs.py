# SPDX-License-Identifier: Apache-2.0
"""Inputs whose elements decide shapes: as shape tensors of a profile, and as data."""
import json
import struct

import tiny_model
from reports import QUICK


def extents_of_output(t):
    return json.loads((t.folder / "y.json").read_text())[0]["dimensions"]


def as_shape_tensor(t):
    """--shapes gives their elements, a profile their range; outside of it is an error."""
    r = t.run("--onnx=tile.onnx", "--minShapes=repeats:1x1", "--optShapes=repeats:2x2", "--maxShapes=repeats:4x8",
              "--saveEngine=tile.engine", "--exportOutput=y.json", *QUICK)
    t.expect(r, 0, ["[I] Set input shape tensor repeats for optimization profile 0 to: MIN=1x1 OPT=2x2 MAX=4x8"])
    t.check(extents_of_output(t) == "4x6", "not at the opt values", r)
    r = t.run("--loadEngine=tile.engine", "--shapes=repeats:4x8", "--exportOutput=y.json", *QUICK)
    t.expect(r, 0)
    t.check(extents_of_output(t) == "8x24", "not at the given values", r)
    t.expect(t.run("--loadEngine=tile.engine", "--shapes=repeats:5x8", *QUICK), 1, [], ["re:.*repeats.*5.*"])


def as_data(t):
    """Without values a run finds the sizes; made-up data is all ones, and that is said."""
    (t.folder / "repeats.bin").write_bytes(struct.pack("<2q", 50, 7))
    r = t.run("--onnx=tile.onnx", "--saveEngine=data.engine", "--exportOutput=y.json", *QUICK)
    t.expect(r, 0, [], ["[W] Sizes follow from the elements of input repeats, and none are given: each is 1. (--shapes=repeats:2x3 gives "
                        "2 and 3, --loadInputs those of a file.)"])
    t.check(extents_of_output(t) == "2x3", "not with ones", r)
    r = t.run("--loadEngine=data.engine", "--loadInputs=repeats:repeats.bin", "--exportOutput=y.json", *QUICK)
    t.expect(r, 0)
    t.check(extents_of_output(t) == "100x21", "not with the file's values", r)


def run_all(t):
    tiny_model.write_tile(t.folder / "tile.onnx")
    as_shape_tensor(t)
    as_data(t)
