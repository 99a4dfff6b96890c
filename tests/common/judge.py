# SPDX-License-Identifier: Apache-2.0
"""Judges of results: ONNX Runtime as ONNX is written, and the distance between two results."""
import pathlib

import numpy as np
import onnxruntime as ort

ort.set_default_logger_severity(4)


def session(model, threads=0):
    """ONNX Runtime without its optimisations: every node computes what ONNX says of it. `model`: a file or a ModelProto."""
    options = ort.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    source = str(model) if isinstance(model, (str, pathlib.Path)) else model.SerializeToString()
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run(model, inputs, threads=0):
    return session(model, threads).run(None, inputs)


def relative_l2(got, wanted):
    """|got - wanted| / |wanted|, and the norm of what was got where nothing was wanted."""
    got, wanted = np.asarray(got).astype(np.float64).ravel(), np.asarray(wanted).astype(np.float64).ravel()
    return float(np.linalg.norm(got - wanted) / (np.linalg.norm(wanted) or 1))
