# SPDX-License-Identifier: Apache-2.0
"""Models of the zoo with other weights: a refitted engine computes bit for bit what a fresh build does, and a stripped file has at most
3 % of the whole. Run by run.py --all. usage: refit_models.py path/to/lathe"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

import lathe

MODELS = ["resnet50", "mobilenet_v2", "efficientnet_b0", "bert_base", "gpt2"]


def change_weights(source, target):
    model, rng = onnx.load(source), np.random.default_rng(0)
    changed = {}
    for w in model.graph.initializer:
        values = numpy_helper.to_array(w)
        if values.dtype == np.float32 and values.ndim >= 1:
            noise = 0.01 * np.abs(rng.standard_normal(values.shape))
            changed[w.name] = (values * rng.uniform(0.8, 1.2, values.shape) + noise).astype(np.float32)
            w.CopyFrom(numpy_helper.from_array(changed[w.name], w.name))
    onnx.save(model, target)
    return changed


def shapes_of(model):
    """Sequences of 16, and 1 for every other dynamic dim."""
    infos = lathe.Builder(threads=1).parse_onnx(model).inputs
    return {t.name: [d if d != -1 else 16 if i == 1 and len(t.shape) == 2 else 1 for i, d in enumerate(t.shape)] for t in infos}


def check(name, program, folder):
    source, target = str(folder / "a.onnx"), str(folder / "b.onnx")
    subprocess.run([program, "zoo", name, "-o", source, "--force"], check=True, stdout=subprocess.DEVNULL)
    changed, shapes = change_weights(source, target), shapes_of(source)
    build = {"shapes": shapes, "level": 0, "progress": False}
    engine, fresh = lathe.compile(source, **build), lathe.compile(target, **build)
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(shapes[t.name]).astype(np.float32) if t.dtype == "float32" else np.ones(shapes[t.name], t.dtype)
              for t in engine.inputs]

    def results(of):
        values = of(*inputs)
        return values if isinstance(values, (tuple, list)) else [values]
    stripped = engine.serialize_stripped()
    share = len(stripped) / len(engine.serialize())
    same = all(np.array_equal(a, b) for refitted in (lathe.refit(stripped, target), lathe.refit(engine, changed))
               for a, b in zip(results(refitted), results(fresh)))
    moved = any(not np.array_equal(a, b) for a, b in zip(results(engine), results(fresh)))
    ok = same and moved and share <= 0.03
    print(f"{name}: {'ok' if ok else 'FAILED'}: same {same}, weights matter {moved}, stripped {share:.2%}", flush=True)
    return ok


def main():
    with tempfile.TemporaryDirectory() as folder:
        return 0 if all([check(name, sys.argv[1], pathlib.Path(folder)) for name in MODELS]) else 1


if __name__ == "__main__":
    sys.exit(main())
