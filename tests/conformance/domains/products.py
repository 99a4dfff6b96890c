# SPDX-License-Identifier: Apache-2.0
"""Activations with biases, fused products and convolutions, as ONNX Runtime's optimizer writes them."""
import math

import numpy as np

DOMAIN = "com.microsoft"
erf = np.vectorize(math.erf)


def gelu(x):
    return (0.5 * x * (1 + erf(x / math.sqrt(2)))).astype(x.dtype)


def silu(x):
    return x / (1 + np.exp(-x))


def activations(add):
    x = add.floats(2, 5, 8, scale=2)
    add("plain", "Gelu", [x])
    add("plain", "BiasGelu", [x, add.floats(8)])
    add("plain", "FastGelu", [x])
    add("bias", "FastGelu", [x, add.floats(8)])
    add("plain", "QuickGelu", [x])
    add("alpha", "QuickGelu", [x], alpha=1.0)
    bias, skip = add.floats(8), add.floats(2, 5, 8)
    add("plain", "BiasAdd", [x, bias, skip], expected=[x + bias + skip])
    left, right = np.split(x + bias, 2, axis=2)
    add("plain", "BiasSplitGelu", [x, bias], expected=[left * gelu(right)])
    add("no_residual", "BiasDropout", [x, bias], expected=[x + bias])
    add("residual", "BiasDropout", [x, bias, skip, np.float32(0.5)], expected=[x + bias + skip])
    add("plain", "ScaledSiLU", [x], alpha=0.7)
    add("input", "ScaledSiLU", [x, np.float32(0.3)])
    add("plain", "GatedAdd", [x, skip, add.floats(2, 5, 1)])
    add("decay", "LinearAttentionGate", [x, bias, add.floats(8)], outputs=1)
    add("both", "LinearAttentionGate", [x, bias, add.floats(8), skip], outputs=2)


def softmax(x, axis):
    flat = x.reshape(int(np.prod(x.shape[:axis])), -1)
    e = np.exp(flat - flat.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).reshape(x.shape)


def bias_softmax(add):
    x = add.floats(2, 3, 4, 5)
    inner = add.floats(2, 1, 1, 5)
    add("inner", "BiasSoftmax", [x, inner], axis=3, is_inner_broadcast=1, expected=[softmax(x + inner, 3)])
    outer = add.floats(1, 1, 4, 5)
    add("outer", "BiasSoftmax", [x, outer], axis=3, is_inner_broadcast=0, expected=[softmax(x + outer, 3)])


def matmuls(add):
    a, b = add.floats(2, 3, 4, 5), add.floats(2, 3, 5, 6)
    add("plain", "FusedMatMul", [a, b])
    add("alpha", "FusedMatMul", [a, b], alpha=0.25)
    add("trans_a", "FusedMatMul", [a.swapaxes(2, 3).copy(), b], transA=1)
    add("trans_b", "FusedMatMul", [a, b.swapaxes(2, 3).copy()], transB=1, alpha=2.0)
    add("vector", "FusedMatMul", [add.floats(5), b], alpha=3.0)
    add("batch_a", "FusedMatMul", [add.floats(4, 2, 3, 5), b], transBatchA=1)
    add("batch_both", "FusedMatMul", [add.floats(5, 2, 3, 4), add.floats(6, 2, 3, 5)],
        transBatchA=1, transA=1, transBatchB=1, transB=1)
    add("plain", "TransposeMatMul", [a.swapaxes(2, 3).copy(), b], transA=1, alpha=0.5)
    product = a @ b
    for name, result in (("Relu", np.maximum(product, 0)), ("Tanh", np.tanh(product)),
                         ("LeakyRelu", np.where(product > 0, product, product * np.float32(0.2)))):
        alpha = {"activation_alpha": 0.2} if name == "LeakyRelu" else {}
        add(name.lower(), "FusedMatMulActivation", [a, b], activation=name, expected=[result], **alpha)
    w, bias = add.floats(5, 6), add.floats(6)
    y = a @ w + bias
    tanh_gelu = (0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))).astype(np.float32)
    add("bias", "GemmFastGelu", [a, w, bias], expected=[tanh_gelu])


def gemms(add):
    a, b, c = add.floats(4, 5), add.floats(5, 6), add.floats(6)
    add("relu", "FusedGemm", [a, b, c], activation="Relu")
    add("no_c", "FusedGemm", [a, b], activation="Relu")
    add("leaky", "FusedGemm", [a.T.copy(), b.T.copy(), c], transA=1, transB=1, alpha=0.5, beta=2.0,
        activation="LeakyRelu", activation_alpha=0.3)
    for name in ("Tanh", "Sigmoid"):
        add(name.lower(), "FusedGemm", [a, b, c], activation=name)
    add("hard_sigmoid", "FusedGemm", [a, b, c], activation="HardSigmoid", activation_alpha=0.1, activation_beta=0.4)


def convs(add):
    x, w, b = add.floats(2, 4, 7, 6), add.floats(8, 4, 3, 3), add.floats(8)
    for name, parameters in (("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.1]), ("Clip", [-0.5, 1.5]),
                             ("HardSigmoid", [0.1, 0.6])):
        add(name.lower(), "FusedConv", [x, w, b], activation=name, activation_params=parameters or None, pads=[1, 1, 1, 1])
    add("no_bias", "FusedConv", [x, w], activation="Relu", strides=[2, 2])
    add("sum", "FusedConv", [x, w, b, add.floats(2, 8, 7, 6)], activation="Relu", pads=[1, 1, 1, 1])
    add("depthwise", "FusedConv", [x, add.floats(4, 1, 3, 3), add.floats(4)], activation="Relu", group=4)
    add("three_dims", "FusedConv", [add.floats(1, 2, 4, 5, 6), add.floats(3, 2, 2, 2, 2)], activation="Relu")
    plain = np.einsum("nhwc,mc->nhwm", x.transpose(0, 2, 3, 1), w[:, :, 0, 0])
    add("plain", "NhwcConv", [x.transpose(0, 2, 3, 1).copy(), w[:, :, :1, :1].copy(), b], expected=[plain + b])
    add("plain", "NhwcFusedConv", [x.transpose(0, 2, 3, 1).copy(), w[:, :, :1, :1].copy(), b], activation="Relu",
        expected=[np.maximum(plain + b, 0)])


def cases(add):
    for family in (activations, bias_softmax, matmuls, gemms, convs):
        family(add)
