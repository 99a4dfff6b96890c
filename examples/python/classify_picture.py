# SPDX-License-Identifier: Apache-2.0
"""The classes of a picture: classify_picture.py MODEL.onnx PICTURE [LABELS.txt]

The engine is kept beside the model, so that the second call needs no build.
"""
import pathlib
import sys

import numpy as np

import lathe


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    model, picture = pathlib.Path(sys.argv[1]), sys.argv[2]
    labels = pathlib.Path(sys.argv[3]).read_text().splitlines() if len(sys.argv) > 3 else None
    file = model.with_suffix(".engine")
    if file.exists():
        engine = lathe.load(file)
    else:
        inputs = lathe.Builder().parse_onnx(str(model)).inputs
        shapes = {t.name: tuple(1 if d < 0 else d for d in t.shape) for t in inputs}
        engine = lathe.compile(model, shapes, level=1, save=file)
    shape = tuple(1 if d < 0 else d for d in engine.inputs[0].shape)
    scores = engine(lathe.image(picture, shape=shape)).reshape(-1)
    for place in np.argsort(scores)[::-1][:5]:
        print(f"{scores[place]:8.3f}  {labels[place] if labels else place}")


if __name__ == "__main__":
    main()
