# SPDX-License-Identifier: Apache-2.0
"""Other engines, called alike: make_peer(name, model, threads) gives a function from a dict of arrays to a dict of arrays."""
from ._errors import InputError


def make_peer(name, model, threads):
    makers = {"onnxruntime": _onnxruntime, "openvino": _openvino}
    if name not in makers:
        raise InputError(f"there is no engine '{name}' to compare with", hint="take onnxruntime or openvino")
    try:
        return makers[name](model, threads)
    except ImportError as error:
        raise InputError(f"{name} is not installed", why=str(error), hint=f"pip install {name}") from None


def _onnxruntime(model, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, inputs)))


def _openvino(model, threads):
    import openvino

    core = openvino.Core()
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    if threads:
        settings["INFERENCE_NUM_THREADS"] = threads
    compiled = core.compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()

    def call(inputs):
        results = request.infer(inputs, share_inputs=True)
        return {next(iter(port.get_names())): results[port] for port in compiled.outputs}
    return call
