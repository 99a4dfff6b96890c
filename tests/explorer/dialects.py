# SPDX-License-Identifier: Apache-2.0
"""Writes the files that TensorRT 8, 9, 10 and 11 would write for one small network, each in the words of its release.

The network: input -> reformat -> conv + relu -> conv + add + relu -> (fused pointwise) -> pool -> gemm -> softmax -> output,
with a constant, a no-op and, from 10 on, generated kernels with their weights as inputs. What differs between releases and
matters to a reader: the phrases for types, Metadata and StreamId (8.6), type words for generated kernels (10), "I/O Tensors"
and split formats (11), medianMs (8.4), names alone.
"""
import json

LINEAR = {"FP32": "Row major linear FP32", "FP16": "Row major linear FP16 format", "INT8": "Row major Int8 format"}
PACKED = {"FP16": "Channel major FP16 format where channel % 8 == 0", "INT8": "Thirty-two wide channel vectorized row major Int8 format"}
WORDS = {"FP32": "Float", "FP16": "Half", "INT8": "Int8", "INT64": "Int64"}
RELEASES = (8, 9, 10, 11)
TIMES = [("reformat", 0.0102, 0.0101), ("conv1 + relu1", 0.0471, 0.0469), ("conv2 + add1 + relu2", 0.0923, 0.0921),
         ("PWN(PWN(sigmoid1), mul1)", 0.0134, 0.0133), ("pool1", 0.0051, 0.005), ("fc", 0.0207, 0.0206), ("softmax1", 0.0033, 0.0032)]


def tensor(release, name, dims, kind, packed=False, generated=False):
    if release >= 11:
        words = (PACKED if packed else LINEAR)[kind] if kind in LINEAR else "Row major linear"
        return {"Name": name, "Location": "Device", "Dimensions": dims, "Format": words + " (kLINEAR)", "Datatype": WORDS[kind]}
    if generated and release == 10:
        return {"Name": name, "Dimensions": dims, "Format/Datatype": WORDS[kind]}
    phrase = PACKED[kind] if packed else LINEAR[kind]
    if release == 8:
        return {"Name": name, "Dimensions": dims, "Format/Datatype": phrase}
    return {"Name": name, "Location": "Device", "Dimensions": dims, "Format/Datatype": phrase}


def convolution(release, name, inputs, output, channels, residual):
    layer = {"Name": name, "LayerType": "CaskConvolution", "Inputs": inputs, "Outputs": [output], "ParameterType": "Convolution",
             "Kernel": [3, 3], "PaddingMode": "kEXPLICIT_ROUND_DOWN", "PrePadding": [1, 1], "PostPadding": [1, 1], "Stride": [1, 1],
             "Dilation": [1, 1], "OutMaps": 16, "Groups": 1, "Weights": {"Type": "Half", "Count": 16 * channels * 9},
             "Bias": {"Type": "Half", "Count": 16}, "HasBias": 1, "HasReLU": 1, "HasSparseWeights": 0, "HasDynamicFilter": 0,
             "HasResidual": int(residual), "Activation": "RELU",
             "TacticName": "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize64x64x32",
             "TacticValue": "0x00000000000a1b2c"}
    return layer


def network(release):
    """The layers with their ONNX nodes, in execution order."""
    t = lambda *a, **k: tensor(release, *a, **k)
    image, packed = [1, 8, 16, 16], [1, 16, 16, 16]
    layers = [
        ({"Name": "reformat", "LayerType": "Reformat", "Inputs": [t("x", image, "FP32")], "Outputs": [t("x_h", image, "FP16", True)],
          "ParameterType": "Reformat", "Origin": "REFORMAT", "TacticName": "", "TacticValue": "0x0"}, []),
        (convolution(release, "conv1 + relu1", [t("x_h", image, "FP16", True)], t("a", packed, "FP16", True), 8, False), ["conv1", "relu1"]),
        (convolution(release, "conv2 + add1 + relu2", [t("a", packed, "FP16", True), t("a", packed, "FP16", True)],
                     t("b", packed, "FP16", True), 16, True), ["conv2", "add1", "relu2"]),
        ({"Name": "PWN(PWN(sigmoid1), mul1)", "LayerType": "PointWiseV2", "Inputs": [t("b", packed, "FP16", True)],
          "Outputs": [t("c", packed, "FP16", True)], "ParameterType": "PointWise", "ParameterSubType": "PointWiseExpression",
          "NbInputArgs": 1, "InputArgs": ["arg0"], "NbOutputVars": 1, "OutputVars": ["var1"], "NbParams": 0, "Params": [],
          "NbLiterals": 1, "Literals": ["0.000000e+00f"], "NbOperations": 2,
          "Operations": ["auto const var0 = pwgen::iSigmoid(arg0);", "auto const var1 = pwgen::iMul(arg0, var0);"],
          "TacticValue": "0x0000000000000018"}, ["sigmoid1", "mul1"]),
        ({"Name": "pool1", "LayerType": "CaskPooling", "Inputs": [t("c", packed, "FP16", True)], "Outputs": [t("p", [1, 16, 1, 1], "FP16")],
          "ParameterType": "Pooling", "PoolingType": "AVERAGE", "WindowSize": [16, 16], "PaddingMode": "kEXPLICIT_ROUND_DOWN",
          "PrePadding": [0, 0], "PostPadding": [0, 0], "Stride": [1, 1], "BlendFactor": 0, "AverageCountExcludesPadding": 1,
          "TacticName": "sm50_xmma_pooling_fw_4d_FP16", "TacticValue": "0x2b"}, ["pool1"]),
        ({"Name": "flatten1", "LayerType": "NoOp", "Inputs": [t("p", [1, 16, 1, 1], "FP16")], "Outputs": [t("f", [1, 16], "FP16")]}, ["flatten1"]),
        ({"Name": "w_fc", "LayerType": "Constant", "Inputs": [], "Outputs": [t("w", [16, 10], "FP16")]}, []),
        ({"Name": "fc", "LayerType": "gemm" if release >= 10 else "MatrixMultiply",
          "Inputs": [t("f", [1, 16], "FP16", generated=True), t("w", [16, 10], "FP16", generated=True)],
          "Outputs": [t("l", [1, 10], "FP32", generated=True)], "TacticName": "sm80_xmma_gemm_f16f16_f16f32_f32_nn_n_tilesize32x32x64"}, ["fc"]),
        ({"Name": "softmax1", "LayerType": "SoftMaxV2", "Inputs": [t("l", [1, 10], "FP32")], "Outputs": [t("y", [1, 10], "FP32")],
          "ParameterType": "SoftMax", "Axes": [1], "HasLog": 0, "TacticName": "", "TacticValue": "0x3e9"}, ["softmax1"]),
    ]
    if release < 10:  # older releases have no tactic name for the product's constant operand: it is part of the layer
        layers[7][0]["ParameterType"] = "MatrixMultiply"
    if release >= 9:
        for layer, nodes in layers:
            layer["StreamId"] = 0
            layer["Metadata"] = "\x1e".join(f"[ONNX Layer: {n}]" for n in nodes)
    return [layer for layer, _ in layers]


def layer_information(release):
    plan = {"Layers": network(release)}
    if release >= 11:
        plan["I/O Tensors"] = [
            {"Name": "x", "IOMode": "Input", "DataType": "Float", "Dimensions": [1, 8, 16, 16], "Location": "Device",
             "IsShapeInferenceIO": False, "ProfileInfo": [{"MinShape": [1, 8, 16, 16], "OptShape": [1, 8, 16, 16],
                                                            "MaxShape": [4, 8, 16, 16], "Format": "Row major linear FP32 format (kLINEAR)"}]},
            {"Name": "y", "IOMode": "Output", "DataType": "Float", "Dimensions": [1, 10], "Location": "Device", "IsShapeInferenceIO": False,
             "ProfileInfo": []}]
    else:
        plan["Bindings"] = ["x", "y"]
    return plan


def names_only(release):
    plan = layer_information(release)
    plan["Layers"] = [layer["Name"] for layer in plan["Layers"]]
    return plan


def profile(release, count=100):
    total = sum(average for _, average, _ in TIMES)
    records = [{"count": count}]
    for name, average, median in TIMES:
        record = {"name": name, "timeMs": round(average * count, 6), "averageMs": average, "medianMs": median,
                  "percentage": float(f"{100 * average / total:.6g}")}
        if release == 8:
            del record["medianMs"]
        records.append(record)
    return records


def times(count=50):
    return [{"startEnqMs": i * 0.3, "endEnqMs": i * 0.3 + 0.01, "startH2dMs": i * 0.3, "endH2dMs": i * 0.3, "startComputeMs": i * 0.3 + 0.02,
             "endComputeMs": i * 0.3 + 0.2, "startD2hMs": i * 0.3 + 0.2, "endD2hMs": i * 0.3 + 0.2, "h2dMs": 0, "computeMs": 0.18 + (i * 7 % 11) * 0.001,
             "d2hMs": 0, "latencyMs": 0.18 + (i * 7 % 11) * 0.001} for i in range(count)]


def log(release):
    stamp = "[06/24/2026-10:00:00] [I] "
    percentiles = "percentile(99%) = 0.19 ms" if release == 8 else "percentile(90%) = 0.187 ms, percentile(95%) = 0.188 ms, percentile(99%) = 0.19 ms"
    series = f"min = 0.18 ms, max = 0.19 ms, mean = 0.185 ms, median = 0.185 ms, {percentiles}"
    lines = [f"&&&& RUNNING TensorRT.trtexec [TensorRT v{release}0000] # trtexec --loadEngine=m.engine"]
    for title, pairs in (("Model Options", ["Format: ONNX", "Model: C:\\models\\m.onnx", "Output:"]),
                         ("Build Options", ["Memory Pools: workspace: default, dlaSRAM: default", "Precision: FP32+FP16", "Refit: Disabled", "Sparsity: Disabled",
                                            "Save engine: m.engine", "Profiling verbosity: 2", "timingCacheMode: local"]),
                         ("Inference Options", ["Batch: Explicit", "Iterations: 100", "Duration: 3s (+ 200ms warm up)", "Data transfers: Disabled"]),
                         ("Device Information", ["Selected Device: NVIDIA A100", "Selected Device ID: 0", "Compute Capability: 8.0", "SMs: 108",
                                                 "Device 0: \"NVIDIA A100\" UUID: GPU-12:34"]),
                         ("Performance summary", ["Throughput: 5405.4 qps", f"Latency: {series}", f"Enqueue Time: {series}", f"H2D Latency: {series}",
                                                  f"GPU Compute Time: {series}", f"D2H Latency: {series}", "Total Host Walltime: 3.0 s",
                                                  "Total GPU Compute Time: 2.9 s"])):
        lines += [stamp + f"=== {title} ==="] + [stamp + p for p in pairs] + [stamp]
    return "\n".join(lines) + "\n"


def write_all(folder):
    """Files of all releases as {release: {role: path}}."""
    paths = {}
    for release in RELEASES:
        contents = {"layers": layer_information(release), "names": names_only(release), "profile": profile(release), "times": times()}
        paths[release] = {}
        for role, data in contents.items():
            paths[release][role] = folder / f"trt{release}.{role}.json"
            paths[release][role].write_text(json.dumps(data, indent=1))
        paths[release]["log"] = folder / f"trt{release}.log"
        paths[release]["log"].write_text(log(release))
    return paths
