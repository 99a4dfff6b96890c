# SPDX-License-Identifier: Apache-2.0
"""Every operator with a dim of 0: where ONNX Runtime has an answer, so has the engine, and the same one.

The models and data are ONNX's node tests; in each, all dims of one size become 0 in turn. (ReduceSum over nothing is 0, MatMul of [3, 0]
and [0, 4] is twelve zeros, Concat with nothing is the rest.)
"""
import collections
import json
import multiprocessing
import re

import numpy as np

import hostile
from contradictions import check_outputs, flag, right_answer

# Where ONNX Runtime's answer is not ONNX's.
EXCEPTIONS = {
    "Gemm": "beta times C is C there, when there is nothing to multiply",
    "QLinearMatMul": "a sum over nothing is quantized to 0 there, and not to the zero point",
    "ReduceMean": "the mean of nothing is 0 there, and NaN here and in numpy; ONNX leaves it open",
    "NegativeLogLikelihoodLoss": "the mean of nothing is 0 there, and NaN here, as of ReduceMean",
    "SoftmaxCrossEntropyLoss": "the mean of nothing is 0 there, and NaN here, as of ReduceMean",
    "DynamicQuantizeLinear": "the scale of nothing is 1 there; ONNX leaves it open",
}
UNSUPPORTED = re.compile("not supported|must be a vector of known length|opsets 1 to")


def cases(folder, of_each):
    import onnx
    from onnx.backend.test.case.node import collect_testcases
    taken = collections.Counter()
    for case in sorted(collect_testcases(), key=lambda c: c.name):
        graph = case.model.graph
        operator = graph.node[0].op_type if len(graph.node) == 1 and not graph.node[0].domain else None
        if operator is None or not graph.input or not case.data_sets or any(not i.type.HasField("tensor_type") for i in graph.input):
            continue
        taken[operator] += 1
        if taken[operator] > of_each:
            continue
        source, data = with_constants(case.model, [np.asarray(v) for v in case.data_sets[0][0]])
        model = hostile.with_symbols(source, folder / f"{case.name}.onnx", shared=True)
        if data and [v.ndim for v in data] == [len(dims) for dims in model.inputs.values()]:
            yield operator, model, data


def with_constants(model, data):
    """Axes, shapes and indices, which are lists of integers, become constants: they say what is to be done. Returns the other data."""
    import onnx
    source = onnx.ModelProto()
    source.CopyFrom(model)
    if len(data) != len(source.graph.input):
        return source, []
    inputs, rest = list(source.graph.input), []
    del source.graph.input[:]
    for value, info in zip(data, inputs):
        if value.dtype == np.int64 and value.ndim <= 1:
            source.graph.initializer.append(onnx.numpy_helper.from_array(value, info.name))
        else:
            source.graph.input.append(info)
            rest.append(value)
    return source, rest


def without(symbol, dims, value):
    """The value with the extents of these dims 0."""
    index = tuple(slice(0, 0) if d == symbol else slice(None) for d in dims)
    return value[index] if index else value


def answer_in_child(path, feeds):
    """ONNX Runtime's outputs; None when it refuses, or dies: some of its operators divide by a size."""
    def work(sender):
        import onnxruntime
        onnxruntime.set_default_logger_severity(4)
        try:
            session = onnxruntime.InferenceSession(str(path))
        except Exception:  # types and operators that it does not have
            return sender.send(None)
        sender.send(right_answer(session, feeds))
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(sender,))
    child.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        return None
    finally:
        child.join()


def run_all(t, server, of_each=2):
    counts = collections.Counter()
    for operator, model, data in cases(t.folder, of_each):
        for symbol in sorted(model.usual):
            feeds = {name: without(symbol, dims, value) for (name, dims), value in zip(model.inputs.items(), data)}
            expected = answer_in_child(model.path, feeds)
            if expected is not None and operator not in EXCEPTIONS:
                run_case(t, server, operator, model, symbol, feeds, expected, counts)
    print("empty:", dict(counts), flush=True)


def run_case(t, server, operator, model, symbol, feeds, expected, counts):
    words = []
    for name, value in feeds.items():
        if value.size:
            (t.folder / f"{name}.bin").write_bytes(np.ascontiguousarray(value).tobytes())
            words.append(f"{name}:{t.folder}/{name}.bin")
    (t.folder / "out.json").unlink(missing_ok=True)
    shapes = {k: v.shape for k, v in feeds.items() if v.ndim and model.path and any(isinstance(d, str) for d in model.inputs[k])}
    r = server.run(f"--onnx={model.path}", *([flag("shapes", shapes)] if shapes else []), *(["--loadInputs=" + ",".join(words)] if words else []),
                   *hostile.QUICK, "--builderOptimizationLevel=0", f"--exportOutput={t.folder}/out.json")
    what = f"{operator} ({model.path.stem}) with {symbol} = 0"
    counts["same" if r.code == 0 else "not supported" if UNSUPPORTED.search(r.errors) else "refused"] += 1
    wrong = hostile.fault(r.code, r.errors)
    t.check(not wrong, f"{what}: {wrong}", r)
    if r.code == 0:
        check_outputs(t, json.loads((t.folder / "out.json").read_text()), expected, what, r)
    elif not UNSUPPORTED.search(r.errors):
        refused = next((line for line in r.lines() if line.startswith("[E]")), "")
        t.check(re.search(r"(node|layer|input|tensor) '", refused), f"{what}: nothing is named", r)
        print(f"  {what}: {refused[:200]}")
