# SPDX-License-Identifier: Apache-2.0
"""Layers on the reference (--failOnFallback) and where NaN and infinity begin (--checkNumerics)."""
import json
import struct

import tiny_model
from reports import QUICK, load

PIXELS = 3 * 64 * 64


def fallback(t):
    """A layer that only the reference can run is a warning, a field in the JSON, and an error when it is asked for."""
    tiny_model.write_chain(t.folder / "lrn.onnx", ("Relu", {}), ("LRN", {"size": 3, "beta": -1.0}))
    words = ["--onnx=lrn.onnx", "--skipInference"]
    reason = "Lrn: a power of what may be negative, or no positive power"
    r = t.run(*words, "--verbose", "--profilingVerbosity=detailed", "--exportLayerInfo=lrn.json")
    t.expect(r, 0, [f"[V] [TRT] 'LRN_1' (Lrn) runs on the reference: {reason}"],
             ["re:\\[W\\] \\[TRT\\] 1 Lrn layer runs on the reference, right but slow \\(one thread, no vectors\\), [\\d.]+ % of the "
              f"layers' time: {reason}"])
    layers = {layer["Name"]: layer for layer in load(t, "lrn.json")["Layers"]}
    t.check(layers["LRN_1"].get("Fallback") == reason, f"no reason in the JSON: {layers['LRN_1']}")
    t.check("Fallback" not in layers["Relu_0"], "a layer with a kernel has a fallback")
    r = t.run(*words, "--failOnFallback")
    t.expect(r, 1, [], ["re:.*1 of \\d+ layers have no kernel but the reference, and --failOnFallback makes that an error:",
                        f"re:.*'LRN_1' \\(Lrn\\) runs on the reference: {reason}"])
    t.expect(t.run("--onnx=static.onnx", "--skipInference", "--failOnFallback"), 0)


def origin(t):
    """The first layer that makes NaN or infinity out of finite operands is named."""
    tiny_model.write_chain(t.folder / "log.onnx", ("Abs", {}), ("Neg", {}), ("Log", {}), ("Sigmoid", {}))
    r = t.run("--onnx=log.onnx", "--checkNumerics", "--builderOptimizationLevel=0", *QUICK)
    t.expect(r, 0, [], ["re:\\[W\\] --checkNumerics: layer '.*Log_2.*' \\(.*\\) makes 14[0-4] NaN and [0-4] infinite of 144 elements of "
                        "'v4' out of finite operands, the first at \\[0, 0, 0, 0\\]; ONNX nodes: .*Log_2.*",
                        "[W] --checkNumerics: output 'v4' is not finite everywhere"])
    r = t.run("--onnx=static.onnx", "--checkNumerics", "--builderOptimizationLevel=0", *QUICK)
    t.expect(r, 0, ["re:\\[I\\] --checkNumerics: none of \\d+ layers makes NaN or infinity out of finite operands"])


def kept(t):
    """One NaN in an image makes every number of the result NaN: with own kernels, and with whatever --checkNumerics leaves."""
    values = [i / 1000 for i in range(PIXELS)]
    values[PIXELS // 2] = float("nan")
    (t.folder / "nan.bin").write_bytes(struct.pack(f"<{PIXELS}f", *values))
    r = t.run("--onnx=static.onnx", "--checkNumerics", "--loadInputs=input:nan.bin", "--exportOutput=nan.json", *QUICK)
    t.expect(r, 0, [], ["[W] --checkNumerics: input 'input' is not finite everywhere"])
    outputs = json.loads((t.folder / "nan.json").read_text())
    t.check(all(v is None for v in outputs[0]["values"]), f"NaN is lost: {outputs}", r)


def run_all(t):
    for group in (fallback, origin, kept):
        group(t)
