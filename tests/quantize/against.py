# SPDX-License-Identifier: Apache-2.0
"""`lathe diff --against`: an engine's outputs beside those of ONNX Runtime, whose library is loaded through its C interface."""
import json
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import judge
from judge import relative_l2

PACKAGE = pathlib.Path(onnxruntime.__path__[0])
QUICK = ["--skipInference", "--builderOptimizationLevel=0"]


def types(path):
    """Outputs of other types, one of no elements, and an input of them."""
    nodes = [helper.make_node("Cast", ["x"], ["half"], "half", to=TensorProto.FLOAT16), helper.make_node("Greater", ["x", "y"], ["larger"], "larger"),
             helper.make_node("ArgMax", ["x"], ["most"], "most", axis=1), helper.make_node("Concat", ["none", "none"], ["nothing"], "nothing", axis=0)]
    info = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
    inputs = [info("x", TensorProto.FLOAT, [3, 5]), info("y", TensorProto.FLOAT, [5]), info("none", TensorProto.INT8, [0, 2])]
    outputs = [info("nothing", TensorProto.INT8, [0, 2]), info("most", TensorProto.INT64, [3, 1]), info("larger", TensorProto.BOOL, [3, 5]),
               info("half", TensorProto.FLOAT16, [3, 5])]
    onnx.save(helper.make_model(helper.make_graph(nodes, "types", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def run(t):
    """After run.py's own checks and bisect_nodes.py, which makes an engine of other weights than small.onnx has."""
    x = np.random.default_rng(6).standard_normal((2, 3, 32, 32)).astype(np.float32)
    x.tofile(t.folder / "x.bin")
    run_of = ("--shapes=input:2x3x32x32", "--loadInputs=input:x.bin")
    wrong = relative_l2(judge.run(t.folder / "changed.onnx", {"input": x})[0], judge.run(t.folder / "small.onnx", {"input": x})[0])
    library = next((PACKAGE / "capi").glob("libonnxruntime.so*"))
    for where in (PACKAGE, PACKAGE / "capi", library):
        for engine, least, most in (("right.engine", 0, 1e-5), ("wrong.engine", 0.99 * wrong, 1.01 * wrong)):
            done = t.lathe("diff", "small.onnx", engine, f"--against={where}", "--json", *run_of)
            if not t.check(done.code == (engine == "wrong.engine"), f"{engine} against {where}", done):
                continue
            found = json.loads("\n".join(done.out))
            loss = found["outputs"][0]["error"]["relative_l2"]
            t.check(least <= loss <= most and found["against"] == f"ONNX Runtime {onnxruntime.__version__}" and found["layers"] == [], f"{engine}: {found}, expected {least}")
    done = t.lathe("diff", "small.onnx", "right.engine", f"--against={PACKAGE}", *run_of)
    t.check(done.code == 0 and "output output: relative L2" in done.text() and f"compared with ONNX Runtime {onnxruntime.__version__}" in done.text(), "as text", done)

    types(t.folder / "types.onnx")
    t.run("--onnx=types.onnx", "--saveEngine=types.engine", *QUICK)
    done = t.lathe("diff", "types.onnx", "types.engine", f"--against={PACKAGE}", "--json")
    if t.check(done.code == 0, "outputs of other types", done):
        found = json.loads("\n".join(done.out))["outputs"]
        t.check([o["name"] for o in found] == ["nothing", "most", "larger", "half"] and all(o["error"]["relative_l2"] == 0 for o in found), f"types: {found}")

    (t.folder / "no.so").write_text("no library")
    for text, model, flags in (("no libonnxruntime.so in this folder: name the library or the folder of the Python package", "small.onnx", ["--against=."]),
                               ("nowhere: cannot open shared object file", "small.onnx", ["--against=nowhere"]),
                               ("no.so: file too short", "small.onnx", ["--against=no.so"]),
                               ("no library of ONNX Runtime (it has no OrtGetApiBase)", "small.onnx", [f"--against={PACKAGE / 'capi' / 'libonnxruntime_providers_shared.so'}"]),
                               ("leave --against or --bisect out", "small.onnx", [f"--against={PACKAGE}", "--bisect=part.onnx"])):
        done = t.lathe("diff", model, "right.engine", *flags, *run_of)
        t.check(done.code == 1 and text in done.text(), f"{model} {flags}", done)
    info = [helper.make_tensor_value_info(n, TensorProto.BFLOAT16, [4]) for n in ("x", "y")]
    sine = helper.make_graph([helper.make_node("Sin", ["x"], ["y"], "sine")], "sine", info[:1], info[1:])
    onnx.save(helper.make_model(sine, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), t.folder / "sine.onnx")  # ONNX Runtime has no such kernel
    t.run("--onnx=sine.onnx", "--saveEngine=sine.engine", *QUICK)
    done = t.lathe("diff", "sine.onnx", "sine.engine", f"--against={PACKAGE}")
    t.check(done.code == 1 and "lathe: ONNX Runtime: " in done.text() and "Sin" in done.text(), "a model that ONNX Runtime refuses", done)
