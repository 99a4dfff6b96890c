# SPDX-License-Identifier: Apache-2.0
"""Shapes that contradict each other inside of a model: ONNX Runtime's answer, or one line that names the node.

Each case runs with the shapes fixed at build time and inside of a dynamic profile, at levels 0 and 3 (run.py --all: each with each).
"""
import json
import pathlib
import re

import numpy as np

MODELS = pathlib.Path(__file__).resolve().parent / "models"
QUICK = ["--iterations=1", "--warmUp=0", "--duration=0"]

# Per model: shapes that fit, and the largest of the dynamic profile (they fit, too, or the build would refuse them).
PROFILES = {
    "pos": ({"x": (1, 8, 4)}, {"x": (1, 64, 4)}),
    "min_pos_table": ({"x": (1, 8, 4)}, {"x": (2, 64, 4)}),
    "min_slice_neg": ({"x": (3, 4), "z": (2,)}, {"x": (9, 4), "z": (64,)}),
    "min_gather_symb": ({"x": (3, 4), "z": (2,)}, {"x": (99, 4), "z": (64,)}),
    "min_matmul_symb": ({"x": (4, 3), "z": (3, 4)}, {"x": (4, 64), "z": (64, 4)}),
    "min_reshape_symb": ({"x": (3, 4), "z": (12,)}, {"x": (150, 4), "z": (600,)}),
    "min_split_symb": ({"x": (6, 4), "z": (3,)}, {"x": (64, 4), "z": (32,)}),
    "min_concat_symb": ({"x": (4, 3), "z": (4, 3)}, {"x": (4, 64), "z": (4, 64)}),
    "min_expand_symb": ({"x": (3,), "z": (3,)}, {"x": (64,), "z": (64,)}),
    "min_add_symb": ({"x": (3,), "z": (3,)}, {"x": (64,), "z": (64,)}),
    "min_pad_symb": ({"x": (3,), "z": (1,)}, {"x": (64,), "z": (8,)}),
    "min_range_symb": ({"z": (200,)}, {"z": (600,)}),
    "min_tile_symb": ({"x": (3,), "z": (2,)}, {"x": (8,), "z": (8,)}),
    "min_topk_symb": ({"x": (3,), "z": (2,)}, {"x": (64,), "z": (64,)}),
    "min_where_symb": ({"c": (3,), "x": (3,), "z": (3,)}, {"c": (64,), "x": (64,), "z": (64,)}),
    "min_slice_add": ({"x": (2, 3, 4)}, {"x": (9, 9, 4)}),
    "min_slice_dyn": ({"x": (2, 3, 4)}, {"x": (9, 9, 4)}),
    "min_slice_flat": ({"x": (2, 3, 4)}, {"x": (9, 9, 4)}),
    "min_slice_start": ({"x": (2, 3, 4)}, {"x": (9, 9, 4)}),
    "min_slice_two": ({"x": (3, 4), "z": (2,)}, {"x": (9, 4), "z": (64,)}),
    "min_gathernd_oob": ({"x": (3, 4), "z": (2, 1)}, {"x": (3, 4), "z": (8, 1)}),
    "min_onehot_neg": ({"x": (3,), "z": (3,)}, {"x": (8,), "z": (8,)}),
    "min_scatter_oob": ({"x": (3, 4), "z": (1, 1), "u": (1, 4)}, {"x": (3, 4), "z": (8, 1), "u": (8, 4)}),
    "min_revseq": ({"x": (6, 4), "z": (4,)}, None),
    "minb_batch0": ({"x": (0, 3, 8, 8)}, None),
}

# (model, shapes, or values of integers). ONNX Runtime says what is right.
CASES = [
    ("pos", {"x": (1, 40, 4)}),
    ("pos", {"x": (1, 7, 4)}),
    ("min_pos_table", {"x": (1, 40, 4)}),
    ("min_slice_neg", {"x": (3, 4), "z": (50,)}),
    ("min_slice_neg", {"x": (3, 4), "z": (2,)}),
    ("min_slice_neg", {"x": (3, 4), "z": (0,)}),
    ("min_gather_symb", {"x": (3, 4), "z": (50,)}),
    ("min_gather_symb", {"x": (3, 4), "z": (2,)}),
    ("min_gather_symb", {"x": (0, 4), "z": (0,)}),
    ("min_matmul_symb", {"x": (4, 5), "z": (3, 4)}),
    ("min_matmul_symb", {"x": (4, 3), "z": (3, 4)}),
    ("min_matmul_symb", {"x": (4, 0), "z": (0, 4)}),
    ("min_reshape_symb", {"x": (3, 4), "z": (500,)}),
    ("min_reshape_symb", {"x": (3, 4), "z": (12,)}),
    ("min_reshape_symb", {"x": (0, 4), "z": (0,)}),
    ("min_split_symb", {"x": (3, 4), "z": (5,)}),
    ("min_split_symb", {"x": (6, 4), "z": (3,)}),
    ("min_concat_symb", {"x": (4, 3), "z": (4, 5)}),
    ("min_concat_symb", {"x": (4, 3), "z": (4, 3)}),
    ("min_expand_symb", {"x": (3,), "z": (50,)}),
    ("min_expand_symb", {"x": (1,), "z": (50,)}),
    ("min_expand_symb", {"x": (3,), "z": (3,)}),
    ("min_expand_symb", {"x": (3,), "z": (1,)}),
    ("min_add_symb", {"x": (3,), "z": (5,)}),
    ("min_add_symb", {"x": (1,), "z": (5,)}),
    ("min_add_symb", {"x": (5,), "z": (1,)}),
    ("min_add_symb", {"x": (0,), "z": (1,)}),
    ("min_pad_symb", {"x": (3,), "z": (1,)}),
    ("min_pad_symb", {"x": (3,), "z": (2,)}),
    ("min_range_symb", {"z": (50,)}),
    ("min_range_symb", {"z": (500,)}),
    ("min_tile_symb", {"x": (3,), "z": (5,)}),
    ("min_tile_symb", {"x": (3,), "z": (0,)}),
    ("min_topk_symb", {"x": (3,), "z": (5,)}),
    ("min_topk_symb", {"x": (3,), "z": (2,)}),
    ("min_topk_symb", {"x": (3,), "z": (0,)}),
    ("min_where_symb", {"c": (3,), "x": (3,), "z": (5,)}),
    ("min_where_symb", {"c": (3,), "x": (3,), "z": (3,)}),
    ("min_where_symb", {"c": (1,), "x": (3,), "z": (3,)}),
    ("min_slice_add", {"x": (2, 3, 4)}),
    ("min_slice_dyn", {"x": (2, 3, 4)}),
    ("min_slice_flat", {"x": (2, 3, 4)}),
    ("min_slice_start", {"x": (2, 3, 4)}),
    ("min_slice_start", {"x": (5, 3, 4)}),
    ("min_slice_two", {"x": (3, 4), "z": (50,)}),
    ("min_slice_two", {"x": (3, 4), "z": (2,)}),
    ("min_gathernd_oob", {"x": (3, 4), "z": [[1], [5]]}),
    ("min_gathernd_oob", {"x": (3, 4), "z": [[1], [-1]]}),
    ("min_onehot_neg", {"x": [-1, 2, 5], "z": (3,)}),
    ("min_revseq", {"x": (6, 4), "z": [1, 2, 7, 3]}),
    ("min_revseq", {"x": (6, 4), "z": [1, 2, 6, 3]}),
    ("min_scatter_oob", {"x": (3, 4), "z": [[5]], "u": (1, 4)}),
    ("minb_batch0", {"x": (0, 3, 8, 8)}),
]

# What a dynamic engine refuses although ONNX Runtime runs it: one symbol is 1 and the other is not, and the model did not say so.
REFUSED_IF_DYNAMIC = [("min_expand_symb", (1,), (50,)), ("min_add_symb", (1,), (5,)), ("min_where_symb", (1,), (3,), (3,))]

# Models that no runtime takes: (flags, the error).
BROKEN = {
    "min_eq3": ("--shapes=x:2x3x4", r"node 'Equal_0' \(Equal\).*has 3 inputs, and takes 2"),
    "min_eq3s": ("--shapes=x:2x3x4", r"node 'Equal_0' \(Equal\).*has 3 inputs, and takes 2"),
    "conv_21420": ("--shapes=x:1x3x12x12", r".*output_padding holds 9223372036854775807, expected 0 to 2147483647.*"),
    "conv_372": ("--skipInference", r".*2147483648.*dims up to 2147483647.*"),
    "fpe_convtranspose": ("--skipInference", r".*2147483648.*dims up to 2147483647.*"),
    "shape_1397": ("--shapes=x:2x3x4", r"node 'Reshape_0' \(Reshape of float32\[2, 3, 4\].*cannot reshape"),
    "move_21680": ("--skipInference", r"node 'Compress_0' \(Compress\): the condition has rank 2, expected 1"),
}


def tensor_of(value, kind):
    if isinstance(value, list):
        return np.array(value, kind)
    count = int(np.prod(value))
    if kind == np.bool_:
        return (np.arange(count) % 2 == 0).reshape(value)
    return (np.arange(count) % 97 + 1).astype(kind).reshape(value)


def session_of(name):
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    return onnxruntime.InferenceSession(str(MODELS / f"{name}.onnx"))


def right_answer(session, feeds):
    """Outputs by name, or None when ONNX Runtime refuses."""
    try:
        values = session.run(None, feeds)
    except Exception:  # its exceptions share no base
        return None
    return dict(zip([o.name for o in session.get_outputs()], values))


def flag(name, shapes):
    return f"--{name}=" + ",".join(f"{k}:{'x'.join(map(str, v))}" for k, v in shapes.items())


def profiles(name, shapes):
    """(kind, flags): the shapes alone, and inside of a wider profile."""
    dynamic = {k: v for k, v in shapes.items() if k in dynamic_inputs(name)}
    yield "fixed", [flag("shapes", dynamic)] if dynamic else []
    fits, largest = PROFILES[name]
    if largest is None:
        return
    low = {k: tuple(min(a, b, 1 if a != 0 else 0) if a != c else a for a, b, c in zip(fits[k], dynamic[k], largest[k])) for k in dynamic}
    low = {k: tuple(min(a, b) for a, b in zip(low[k], dynamic[k])) for k in dynamic}
    yield "dynamic", [flag("minShapes", low), flag("optShapes", {k: fits[k] for k in dynamic}),
                      flag("maxShapes", {k: largest[k] for k in dynamic}), flag("shapes", dynamic)]


def dynamic_inputs(name):
    import onnx
    graph = onnx.load(MODELS / f"{name}.onnx").graph
    return {i.name for i in graph.input if any(d.dim_param for d in i.type.tensor_type.shape.dim)}


def run_case(t, server, name, given, levels):
    session = session_of(name)
    kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_}
    feeds = {i.name: tensor_of(given[i.name], kinds[i.type]) for i in session.get_inputs()}
    shapes = {k: v.shape for k, v in feeds.items()}
    expected = right_answer(session, feeds)
    for key, value in feeds.items():
        (t.folder / f"{key}.bin").write_bytes(value.tobytes())
    loads = "--loadInputs=" + ",".join(f"{k}:{t.folder}/{k}.bin" for k, v in feeds.items() if v.size)
    for kind, words in profiles(name, shapes):
        for level in levels[kind]:
            what = f"{name} {given} {kind} level {level}"
            (t.folder / "out.json").unlink(missing_ok=True)
            r = server.run(f"--onnx={MODELS / name}.onnx", *words, *([loads] if loads[-1] != "=" else []), *QUICK,
                           f"--builderOptimizationLevel={level}", f"--exportOutput={t.folder}/out.json")
            refused = kind == "dynamic" and (name, *shapes.values()) in REFUSED_IF_DYNAMIC
            if expected is None or refused:
                check_error(t, r, what)
            elif t.check(r.code == 0, f"{what}: exit {r.code}", r):
                check_outputs(t, json.loads((t.folder / "out.json").read_text()), expected, what, r)


def check_error(t, r, what):
    errors = [line for line in r.lines("err") if line.startswith("[E]")]
    t.check(r.code == 1 and errors, f"{what}: exit {r.code}, and ONNX Runtime refuses", r)
    t.check(not re.search("internal error|bug", "\n".join(r.err)), f"{what}: our own bug", r)
    t.check(any(re.search(r"(node|layer) '", line) or "(Gather" in line for line in errors), f"{what}: no node is named", r)


def check_outputs(t, written, expected, what, r):
    for tensor in written:
        right = expected[tensor["name"]]
        shape = tuple(int(d) for d in tensor["dimensions"].split("x")) if tensor["dimensions"] not in ("", "scalar") else ()
        values = np.array(tensor["values"], np.float64)
        t.check(shape == right.shape, f"{what}: {tensor['name']} is {shape}, ONNX Runtime gives {right.shape}", r)
        same = values.size == right.size and np.allclose(values, right.astype(np.float64).ravel(), rtol=1e-5, atol=1e-5, equal_nan=True)
        t.check(same, f"{what}: other values of {tensor['name']} than ONNX Runtime", r)


def run_all(t, server, every):
    """`every`: both levels with both kinds of profiles, and not one of them each."""
    for name, given in CASES:
        run_case(t, server, name, given, {"fixed": (0, 3), "dynamic": (0, 3)} if every else {"fixed": (3,), "dynamic": (0,)})
    for name, (words, error) in BROKEN.items():
        for level in (0, 3):
            r = server.run(f"--onnx={MODELS / name}.onnx", words, *QUICK, f"--builderOptimizationLevel={level}")
            errors = [line for line in r.lines("err") if line.startswith("[E]")]
            t.check(r.code == 1 and any(re.search(error, line) for line in errors), f"{name}: not the error {error}", r)
            t.check(not re.search("internal error|bug", "\n".join(r.err)), f"{name}: our own bug", r)
