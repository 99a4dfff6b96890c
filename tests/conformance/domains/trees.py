# SPDX-License-Identifier: Apache-2.0
"""Tree ensembles in both of their forms."""
import numpy as np

DOMAIN = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
FEATURES = 5


def forest(add, trees, depth, targets, prefix, modes=MODES[:1], positive=False, which=None, missing=False, per_leaf=1):
    """Attributes of random trees; thresholds are multiples of 1/4, so that rows hit them."""
    r = add.random
    a = {k: [] for k in ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes", "nodes_truenodeids", "nodes_falsenodeids")}
    w = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    tracks, mode = [], r.choice(modes) if len(modes) == 1 else None

    def grow(tree, level, ids):
        own = next(ids)
        at = len(a["nodes_modes"])
        leaf = level == 0 or r.random() < 0.15
        for key, value in (("nodes_treeids", tree), ("nodes_nodeids", own), ("nodes_featureids", int(r.integers(FEATURES))),
                           ("nodes_values", float(r.integers(-6, 7)) / 4), ("nodes_modes", "LEAF" if leaf else str(mode or r.choice(modes))),
                           ("nodes_truenodeids", 0), ("nodes_falsenodeids", 0)):
            a[key].append(value)
        tracks.append(int(missing and not leaf and r.integers(2)))
        if leaf:
            chosen = r.choice(which if which is not None else np.arange(targets), size=per_leaf, replace=False)
            for target in chosen:
                weight = float(r.random() if positive else r.standard_normal())
                for key, value in (("treeids", tree), ("nodeids", own), ("ids", int(target)), ("weights", weight)):
                    w[key].append(value)
        else:
            a["nodes_truenodeids"][at] = grow(tree, level - 1, ids)
            a["nodes_falsenodeids"][at] = grow(tree, level - 1, ids)
        return own

    for tree in range(trees):
        grow(tree, depth, iter(range(10**6)))
    if missing:
        a["nodes_missing_value_tracks_true"] = tracks
    return a | {f"{prefix}_{k}": v for k, v in w.items()}


def rows(add, count):
    x = (add.random.integers(-8, 9, (count, FEATURES)) / 4).astype(np.float32)
    return x


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def regressors(add):
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        add(aggregate.lower(), "TreeEnsembleRegressor", [rows(add, 20)], aggregate_function=aggregate, n_targets=1, **forest(add, 6, 4, 1, "target"))
    for mode in MODES:
        add(mode[7:].lower(), "TreeEnsembleRegressor", [rows(add, 20)], n_targets=1, **forest(add, 3, 4, 1, "target", modes=(mode,)))
    add("targets", "TreeEnsembleRegressor", [rows(add, 20)], n_targets=3, base_values=[0.5, -1.0, 2.0],
        **forest(add, 8, 5, 3, "target", per_leaf=3))
    add("modes", "TreeEnsembleRegressor", [rows(add, 20)], n_targets=2, **forest(add, 5, 5, 2, "target", modes=MODES, per_leaf=2))
    holes = rows(add, 30)
    holes[add.random.random(holes.shape) < 0.3] = np.nan
    add("missing", "TreeEnsembleRegressor", [holes], n_targets=1, **forest(add, 5, 5, 1, "target", missing=True))
    add("one_row", "TreeEnsembleRegressor", [rows(add, 1)], n_targets=1, **forest(add, 40, 5, 1, "target"))
    add("double", "TreeEnsembleRegressor", [rows(add, 9).astype(np.float64)], n_targets=1, **forest(add, 4, 4, 1, "target"))
    # ONNX Runtime leaves the scores of one target as they are, unless they are for PROBIT; ONNX makes no such exception.
    x, one = rows(add, 9), forest(add, 4, 4, 1, "target")
    add("logistic", "TreeEnsembleRegressor", [x], n_targets=1, post_transform="LOGISTIC", **one,
        expected=[sigmoid(*add.results("TreeEnsembleRegressor", [x], n_targets=1, **one))])
    for post in ("LOGISTIC", "SOFTMAX"):
        add(f"two_{post.lower()}", "TreeEnsembleRegressor", [x], n_targets=2, post_transform=post, **forest(add, 4, 4, 2, "target", per_leaf=2))


def classifiers(add):
    three, two = dict(classlabels_int64s=[2, 4, 8]), dict(classlabels_int64s=[3, 5])
    for post in ("NONE", "SOFTMAX", "LOGISTIC"):
        add(f"three_{post.lower()}", "TreeEnsembleClassifier", [rows(add, 20)], outputs=2, post_transform=post, **three,
            **forest(add, 6, 4, 3, "class", per_leaf=3))
        for positive in (True, False):
            name = f"{'positive' if positive else 'signed'}_{post.lower()}"
            add(name, "TreeEnsembleClassifier", [rows(add, 20)], outputs=2, post_transform=post, **two,
                **forest(add, 6, 4, 2, "class", positive=positive, which=[0]))
    add("second_id", "TreeEnsembleClassifier", [rows(add, 20)], outputs=2, **two, **forest(add, 1, 4, 2, "class", positive=True, which=[1]))
    add("second_id_signed", "TreeEnsembleClassifier", [rows(add, 20)], outputs=2, post_transform="SOFTMAX", **two,
        **forest(add, 4, 4, 2, "class", which=[1]))
    add("base", "TreeEnsembleClassifier", [rows(add, 20)], outputs=2, base_values=[0.3], post_transform="LOGISTIC", **two,
        **forest(add, 6, 4, 2, "class", which=[0]))
    add("base_three", "TreeEnsembleClassifier", [rows(add, 20)], outputs=2, base_values=[0.3, -0.2, 0.9], **three,
        **forest(add, 6, 4, 3, "class", per_leaf=3))
    # ONNX Runtime labels two classes, both with leaves, with 1 and 0, whatever their labels are, by the sign of the second score alone.
    # ONNX says "the top class".
    x, both = rows(add, 20), forest(add, 6, 4, 2, "class", positive=True, per_leaf=2)
    scores = add.results("TreeEnsembleClassifier", [x], outputs=2, **two, **both)[1]
    add("both_ids", "TreeEnsembleClassifier", [x], outputs=2, expected=[np.array([3, 5])[scores.argmax(axis=1)], scores], **two, **both)
    x, both = rows(add, 20), forest(add, 6, 4, 2, "class", per_leaf=2)
    plain, transformed = (add.results("TreeEnsembleClassifier", [x], outputs=2, post_transform=post, **two, **both)[1] for post in ("NONE", "LOGISTIC"))
    add("both_ids_logistic", "TreeEnsembleClassifier", [x], outputs=2, post_transform="LOGISTIC",
        expected=[np.array([3, 5])[plain.argmax(axis=1)], transformed], **two, **both)


def new_form(add):
    """The first tree: x0 <= 0 ? (x1 in {0.5, 1, 1.5} ? leaf 0 : leaf 1) : leaf 2. The second: x2 > 0.25 ? leaf 3 : leaf 4."""
    from onnx import numpy_helper
    tensor = lambda values, dtype=np.float32: numpy_helper.from_array(np.array(values, dtype))
    common = dict(nodes_featureids=[0, 1, 2], nodes_splits=tensor([0.0, 0.0, 0.25]), nodes_modes=tensor([0, 6, 3], np.uint8),
                  nodes_truenodeids=[1, 0, 3], nodes_trueleafs=[0, 1, 1], nodes_falsenodeids=[2, 1, 4], nodes_falseleafs=[1, 1, 1], tree_roots=[0, 2],
                  membership_values=tensor([0.5, 1.0, 1.5, np.nan]), leaf_targetids=[0, 1, 0, 1, 0], leaf_weights=tensor([1.0, 2.5, -3.0, 4.0, 0.5]),
                  n_targets=2, domain_opset=5)
    add("sum", "TreeEnsemble", [rows(add, 30)], aggregate_function=1, **common)
    add("max", "TreeEnsemble", [rows(add, 30)], aggregate_function=3, **common)
    # ONNX numbers SOFTMAX 1 and LOGISTIC 2; ONNX Runtime has them the other way round.
    x = rows(add, 30)
    sums = add.results("TreeEnsemble", [x], aggregate_function=1, **common)[0]
    powers = np.exp(sums - sums.max(axis=1, keepdims=True))
    add("softmax", "TreeEnsemble", [x], aggregate_function=1, post_transform=1, expected=[powers / powers.sum(axis=1, keepdims=True)], **common)
    add("logistic", "TreeEnsemble", [x], aggregate_function=1, post_transform=2, expected=[sigmoid(sums)], **common)


def cases(add):
    for family in (regressors, classifiers, new_form):
        family(add)
