# SPDX-License-Identifier: Apache-2.0
"""ai.onnx.ml: linear models, support vectors, and what stands before and behind a model."""
import numpy as np

DOMAIN = "ai.onnx.ml"
POSTS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")


def linear(add):
    x = add.floats(5, 4)
    w, b = add.floats(12).tolist(), add.floats(3).tolist()
    for post in POSTS:
        add(f"three_{post.lower()}", "LinearClassifier", [x], outputs=2, coefficients=w, intercepts=b, classlabels_ints=[3, 1, 7],
            post_transform=post, multi_class=1)
        add(f"two_{post.lower()}", "LinearClassifier", [x], outputs=2, coefficients=w[:8], intercepts=b[:2], classlabels_ints=[0, 1],
            post_transform=post)
    for post in ("NONE", "LOGISTIC"):
        add(f"one_score_{post.lower()}", "LinearClassifier", [x], outputs=2, coefficients=w[:4], intercepts=b[:1], classlabels_ints=[4, 9],
            post_transform=post)
    add("plain", "LinearRegressor", [x], coefficients=w[:4], intercepts=b[:1])
    add("targets", "LinearRegressor", [x], coefficients=w, intercepts=b, targets=3)
    add("probit", "LinearRegressor", [add.random.uniform(0.1, 0.9, (5, 1)).astype(np.float32)], coefficients=[1.0], intercepts=[0.0],
        post_transform="PROBIT")
    whole = add.random.integers(-5, 5, (5, 4))
    add("whole", "LinearRegressor", [whole.astype(np.int64)], coefficients=w[:4], intercepts=b[:1], expected=[
        (whole @ np.array(w[:4], np.float32) + np.float32(b[0])).astype(np.float32)[:, None]])


def vectors(add):
    x, v = add.floats(6, 4), add.floats(5 * 4).tolist()
    for kind, parameters in (("LINEAR", [0.0, 0.0, 0.0]), ("RBF", [0.3, 0.0, 0.0]), ("POLY", [0.5, 1.0, 3.0]), ("SIGMOID", [0.2, 0.1, 0.0])):
        common = dict(kernel_type=kind, kernel_params=parameters, support_vectors=v)
        add(kind.lower(), "SVMRegressor", [x], coefficients=add.floats(5).tolist(), rho=[0.4], n_supports=5, **common)
        add(f"two_{kind.lower()}", "SVMClassifier", [x], outputs=2, coefficients=add.floats(5).tolist(), rho=[0.1], vectors_per_class=[2, 3],
            classlabels_ints=[0, 1], **common)
        add(f"three_{kind.lower()}", "SVMClassifier", [x], outputs=2, coefficients=add.floats(10).tolist(), rho=[0.1, -0.2, 0.3],
            vectors_per_class=[2, 1, 2], classlabels_ints=[5, 6, 8], **common)
    common = dict(kernel_type="RBF", kernel_params=[0.3, 0.0, 0.0], support_vectors=v)
    add("one_class", "SVMRegressor", [x], coefficients=add.floats(5).tolist(), rho=[0.0], n_supports=5, one_class=1, **common)
    add("no_vectors", "SVMRegressor", [x], coefficients=add.floats(4).tolist(), rho=[0.4], n_supports=0, kernel_type="LINEAR",
        kernel_params=[0.0, 0.0, 0.0])
    two = dict(coefficients=add.floats(5).tolist(), rho=[0.1], vectors_per_class=[2, 3], classlabels_ints=[0, 1], **common)
    for name, b in (("probabilities", 0.2), ("probabilities_against_votes", 2.0)):
        add(name, "SVMClassifier", [x], outputs=2, prob_a=[-1.3], prob_b=[b], expected=two_probabilities(add, x, -1.3, b, **two), **two)
    for post in ("LOGISTIC", "SOFTMAX"):
        add(f"two_{post.lower()}", "SVMClassifier", [x], outputs=2, post_transform=post, **two)
    add("no_vectors", "SVMClassifier", [x], outputs=2, coefficients=add.floats(12).tolist(), rho=[0.1], classlabels_ints=[0, 1, 2], kernel_type="LINEAR",
        kernel_params=[0.0, 0.0, 0.0])


def two_probabilities(add, x, a, b, **attributes):
    """ONNX Runtime finds the probabilities of any number of classes by an iteration that ends when its error is below 0.005 / classes.
    For two classes what it approaches is the sigmoid itself. Labels are those of the votes, whatever the probabilities say."""
    labels, both = add.results("SVMClassifier", [x], 2, **attributes)
    first = 1 / (1 + np.exp(a * both[:, 1] + b))
    exact = np.stack([first, 1 - first], axis=1).astype(np.float32)
    given = add.results("SVMClassifier", [x], 2, prob_a=[a], prob_b=[b], **attributes)
    np.testing.assert_array_equal(given[0], labels)
    np.testing.assert_allclose(given[1], exact, atol=0.0025)
    return [labels, exact]


def features(add):
    x = add.floats(4, 3)
    add("columns", "Scaler", [x], offset=[0.1, 0.2, 0.3], scale=[2.0, 3.0, 4.0])
    add("one", "Scaler", [x], offset=[0.5], scale=[2.0])
    add("whole", "Scaler", [np.arange(12, dtype=np.int64).reshape(4, 3)], offset=[1.0, 2.0, 3.0], scale=[0.5, 0.5, 0.5])
    for norm in ("MAX", "L1", "L2"):
        add(norm.lower(), "Normalizer", [np.abs(x)], norm=norm)
    add("threshold", "Binarizer", [x], threshold=0.3)
    holes = x.copy()
    holes[0, 1], holes[2, 2] = np.nan, np.nan
    add("nan", "Imputer", [holes], replaced_value_float=float("nan"), imputed_value_floats=[1.0, 2.0, 3.0])
    add("one_value", "Imputer", [holes], replaced_value_float=float("nan"), imputed_value_floats=[9.0])
    add("whole", "Imputer", [np.array([[1, 2], [-1, 4]], np.int64)], replaced_value_int64=-1, imputed_value_int64s=[7, 8])
    add("two", "FeatureVectorizer", [x, add.floats(4, 2)], inputdimensions=[3, 2])
    add("columns", "ArrayFeatureExtractor", [x, np.array([2, 0], np.int64)])
    add("column", "ArrayFeatureExtractor", [np.array([10, 20, 30], np.int64), np.array([[2], [0], [1], [1]], np.int64)])
    add("vector", "ArrayFeatureExtractor", [x[0], np.array([1], np.int64)])
    add("labels", "ArrayFeatureExtractor", [np.array([10, 20, 30], np.int64), np.array([2, 0, 1, 1], np.int64)])
    add("whole", "OneHotEncoder", [np.array([[1, 5], [9, 4]], np.int64)], cats_int64s=[4, 5, 1], zeros=1)
    add("numbers", "OneHotEncoder", [np.array([[1.0, 5.0], [9.0, 4.0]], np.float32)], cats_int64s=[4, 5, 1], zeros=1)
    scores = add.floats(3, 2)
    add("tensor", "ZipMap", [scores], classlabels_int64s=[0, 1], expected=[scores])


def encoders(add):
    keys = np.array([[3, 1], [7, 9]], np.int64)
    add("whole", "LabelEncoder", [keys], keys_int64s=[1, 3, 7], values_int64s=[10, 30, 70], default_int64=-5)
    add("to_floats", "LabelEncoder", [keys], keys_int64s=[1, 3, 7], values_floats=[0.1, 0.3, 0.7], default_float=9.0)
    numbers = np.array([1.5, np.nan, 2.5, 4.0], np.float32)
    # "Bit-wise comparison is used so even a float NaN can be mapped": ONNX Runtime does so from version 4 on, and by mistake not before.
    from_floats = dict(keys_floats=[2.5, float("nan"), 1.5], values_int64s=[1, 2, 3])
    add("from_floats", "LabelEncoder", [numbers], domain_opset=4, **from_floats)
    add("from_floats_2", "LabelEncoder", [numbers], expected=[np.array([3, 2, 1, -1], np.int64)], **from_floats)
    add("default", "LabelEncoder", [numbers], keys_floats=[2.5, 1.5], values_floats=[1.0, 3.0])


def strings(add):
    words = np.array(["b", "", "none", "a", "ä"], object)
    keys = dict(keys_strings=["a", "b", "ä"])
    add("strings_to_whole", "LabelEncoder", [words], domain_opset=4, values_int64s=[7, 8, 9], default_int64=-3, **keys)
    add("strings_to_floats", "LabelEncoder", [words], domain_opset=4, values_floats=[7.5, 8.5, 9.5], **keys)
    add("strings_to_strings", "LabelEncoder", [words], domain_opset=4, values_strings=["A", "B", "C"], default_string="?", **keys)
    add("whole_to_strings", "LabelEncoder", [np.array([[3, 1], [2, 5]])], domain_opset=4, keys_int64s=[1, 2, 3], values_strings=["one", "two", "three"])
    categories = dict(cats_strings=["a", "b", "ä"], cats_int64s=[4, 5, 6])
    add("of_strings", "CategoryMapper", [words], **categories)
    add("of_whole", "CategoryMapper", [np.array([4, 7, 6])], default_string="?", **categories)
    add("of_strings", "OneHotEncoder", [np.array([["b"], ["a"], ["x"]], object)], cats_strings=["a", "b"], zeros=1)
    add("columns_of_strings", "ArrayFeatureExtractor", [np.array([["a", "b", "c"], ["d", "e", "f"]], object), np.array([2, 0])])
    x, w, b = add.floats(5, 4), add.floats(12).tolist(), add.floats(3).tolist()
    add("strings_as_labels", "LinearClassifier", [x], outputs=2, coefficients=w, intercepts=b, classlabels_strings=["no", "maybe", "yes"],
        multi_class=1)
    add("two_strings_as_labels", "LinearClassifier", [x], outputs=2, coefficients=w[:4], intercepts=b[:1], classlabels_strings=["no", "yes"])


def cases(add):
    for family in (linear, vectors, features, encoders, strings):
        family(add)
