#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models as other tools write them, against ONNX Runtime: skl2onnx, ONNX Runtime's transformer optimizer and its saved graphs, and FP16 converters.

usage: slow.py --build build [--only TEXT]
The first run makes BUILD/exporters-venv with the packages of requirements.txt and goes on in it.
"""
import argparse, json, os, pathlib, subprocess, sys, tempfile, warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

HERE = pathlib.Path(__file__).resolve().parent


def enter_environment(build):
    """Goes on in the virtual environment, made when it is not there."""
    home, pins = build / "exporters-venv", (HERE / "requirements.txt").read_text()
    if pathlib.Path(sys.prefix) == home:
        return
    stamp = home / "requirements.stamp"
    if not stamp.exists() or stamp.read_text() != pins:
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run([home / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "-r", HERE / "requirements.txt"], check=True)
        stamp.write_text(pins)
    os.execv(home / "bin" / "python", [str(home / "bin" / "python"), *sys.argv])


class Checker:
    def __init__(self, build):
        self.trtexec, self.failed, self.passed = build / "bin" / "trtexec", 0, 0

    def compare(self, name, path, feeds, limit, reference=None):
        """Every output within `limit` (relative L2) of ONNX Runtime's; labels equal."""
        problem = self.difference(path, feeds, limit, reference)
        print(f"{name}: {problem or 'ok'}", flush=True)
        self.failed += bool(problem)
        self.passed += not problem

    def difference(self, path, feeds, limit, reference):
        import numpy as np
        import onnx
        import judge
        expected = judge.run(reference or path, feeds)
        model = onnx.load(path, load_external_data=False)
        with tempfile.TemporaryDirectory() as folder:
            loads, shapes = [], []
            for name, array in feeds.items():
                file = pathlib.Path(folder) / f"{len(loads)}.bin"
                file.write_bytes(array.tobytes())
                loads.append(f"{name}:{file}")
                shapes.append(f"{name}:{'x'.join(map(str, array.shape))}")
            result = pathlib.Path(folder) / "out.json"
            command = [self.trtexec, f"--onnx={path}", "--builderOptimizationLevel=0", "--iterations=1", "--duration=0", "--warmUp=0",
                       f"--loadInputs={','.join(loads)}", f"--exportOutput={result}"]
            initializers = {t.name for t in model.graph.initializer}
            is_open = any(not d.dim_value for i in model.graph.input if i.name not in initializers for d in i.type.tensor_type.shape.dim)
            done = subprocess.run([*command, *([f"--shapes={','.join(shapes)}"] if is_open else [])], capture_output=True, text=True)
            if done.returncode != 0:
                return next((line for line in done.stdout.splitlines() + done.stderr.splitlines() if "[E]" in line), "failed")[:400]
            values = {o["name"]: o["values"] for o in json.loads(result.read_text())}
        for output, wanted in zip(model.graph.output, expected):
            got, wanted = np.array([float(v) for v in values[output.name]]), np.asarray(wanted)
            if got.size != wanted.size:
                return f"{output.name} has {got.size} elements instead of {wanted.size}"
            error = judge.relative_l2(got, wanted)
            if not error <= limit:
                return f"{output.name} is {error:.1e} from ONNX Runtime's"
        return None


def scikit(checker, folder, only):
    import numpy as np
    from skl2onnx import to_onnx
    from sklearn import cluster, decomposition, ensemble, linear_model, naive_bayes, neural_network, pipeline, preprocessing, svm, tree, discriminant_analysis
    from sklearn.impute import SimpleImputer
    random = np.random.default_rng(3)
    x = random.standard_normal((200, 6)).astype(np.float32)
    y = x @ random.standard_normal(6).astype(np.float32)
    two, three = (y > 0).astype(np.int64), np.digitize(y, [-1, 1]).astype(np.int64)
    holes = x.copy()
    holes[random.random(x.shape) < 0.1] = np.nan
    classifiers = {
        "logistic": linear_model.LogisticRegression(), "ridge_classifier": linear_model.RidgeClassifier(), "sgd": linear_model.SGDClassifier(),
        "perceptron": linear_model.Perceptron(), "linear_svc": svm.LinearSVC(), "svc_rbf": svm.SVC(), "svc_linear": svm.SVC(kernel="linear"),
        "svc_poly": svm.SVC(kernel="poly"), "tree": tree.DecisionTreeClassifier(max_depth=5), "forest": ensemble.RandomForestClassifier(20, max_depth=6),
        "extra_trees": ensemble.ExtraTreesClassifier(20, max_depth=6), "gradient_boosting": ensemble.GradientBoostingClassifier(n_estimators=20),
        "hist_gradient_boosting": ensemble.HistGradientBoostingClassifier(max_iter=20), "ada_boost": ensemble.AdaBoostClassifier(n_estimators=5),
        "gaussian_nb": naive_bayes.GaussianNB(), "bernoulli_nb": naive_bayes.BernoulliNB(), "mlp": neural_network.MLPClassifier(hidden_layer_sizes=(8,), max_iter=300),
        "lda": discriminant_analysis.LinearDiscriminantAnalysis(), "qda": discriminant_analysis.QuadraticDiscriminantAnalysis(),
        "bagging": ensemble.BaggingClassifier(n_estimators=5),
    }
    regressors = {
        "linear": linear_model.LinearRegression(), "ridge": linear_model.Ridge(), "lasso": linear_model.Lasso(0.01), "elastic_net": linear_model.ElasticNet(0.01),
        "bayesian_ridge": linear_model.BayesianRidge(), "huber": linear_model.HuberRegressor(), "svr": svm.SVR(), "nu_svr": svm.NuSVR(), "linear_svr": svm.LinearSVR(),
        "tree": tree.DecisionTreeRegressor(max_depth=5), "forest": ensemble.RandomForestRegressor(20, max_depth=6), "extra_trees": ensemble.ExtraTreesRegressor(20, max_depth=6),
        "gradient_boosting": ensemble.GradientBoostingRegressor(n_estimators=20), "hist_gradient_boosting": ensemble.HistGradientBoostingRegressor(max_iter=20),
        "mlp": neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=300), "poisson": linear_model.PoissonRegressor(),
    }
    transformers = {
        "standard": preprocessing.StandardScaler(), "min_max": preprocessing.MinMaxScaler(), "max_abs": preprocessing.MaxAbsScaler(), "robust": preprocessing.RobustScaler(),
        "normalizer": preprocessing.Normalizer(), "binarizer": preprocessing.Binarizer(), "polynomial": preprocessing.PolynomialFeatures(2),
        "k_bins": preprocessing.KBinsDiscretizer(4, encode="ordinal"), "pca": decomposition.PCA(3), "truncated_svd": decomposition.TruncatedSVD(3),
        "k_means": cluster.KMeans(4, n_init=1), "imputer": SimpleImputer(),
        "pipeline": pipeline.make_pipeline(SimpleImputer(), preprocessing.StandardScaler(), decomposition.PCA(3)),
    }
    warnings.simplefilter("ignore")

    def run(name, model, data, target=None, positive=False):
        if only not in name:
            return
        model.fit(np.abs(data) if positive else data, target)
        options = {id(model): {"zipmap": False}} if name.startswith("classifier") else None
        path = folder / f"{name.replace(' ', '_')}.onnx"
        try:
            path.write_bytes(to_onnx(model, data[:1], options=options).SerializeToString())
        except Exception as error:
            print(f"{name}: skl2onnx: {str(error)[:150]}")
            return
        checker.compare(name, path, {"X": data[:40]}, 2e-5)

    for name, model in classifiers.items():
        run(f"classifier of two {name}", model, x, two)
        run(f"classifier of three {name}", model, x, three)
    for name, model in regressors.items():
        run(f"regressor {name}", model, x, np.abs(y) if name == "poisson" else y)
    for name, model in transformers.items():
        run(f"transformer {name}", model, holes if name in ("imputer", "pipeline") else x)


# Model, what ONNX Runtime's optimizer calls its kind, heads, width, and the inputs of one run.
TRANSFORMERS = (("bert_base", "bert", 12, 768), ("gpt2", "gpt2", 12, 768), ("vit_b_16", "vit", 12, 768))


def feeds_of(path):
    import numpy as np
    import onnx
    random, feeds = np.random.default_rng(0), {}
    model = onnx.load(path, load_external_data=False)
    initializers = {t.name for t in model.graph.initializer}
    for value in model.graph.input:
        if value.name in initializers:
            continue
        tensor = value.type.tensor_type
        shape = [d.dim_value or (1 if i == 0 else 12) for i, d in enumerate(tensor.shape.dim)]
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if "mask" in value.name:
            feeds[value.name] = np.ones(shape, kind)
        elif np.issubdtype(kind, np.integer):
            feeds[value.name] = random.integers(0, 2 if "type" in value.name else 90, shape).astype(kind)
        else:
            feeds[value.name] = random.standard_normal(shape).astype(kind)
    return feeds


def optimized(checker, build, folder, only):
    import onnx
    import onnxruntime as ort
    from onnxconverter_common import float16 as common_float16
    from onnxruntime.transformers import float16, optimizer
    for name, kind, heads, width in TRANSFORMERS:
        if only not in f"optimized {name}":
            continue
        path = folder / f"{name}.onnx"
        subprocess.run([build / "bin" / "lathe", "zoo", name, "-o", path], check=True, capture_output=True)
        feeds = feeds_of(path)
        fused = folder / f"{name}.fused.onnx"
        optimizer.optimize_model(str(path), model_type=kind, num_heads=heads, hidden_size=width, opt_level=0).save_model_to_file(str(fused))
        checker.compare(f"optimized {name} by its kind", fused, feeds, 1e-5)
        for level in ("BASIC", "EXTENDED"):
            saved = folder / f"{name}.{level}.onnx"
            options = ort.SessionOptions()
            options.log_severity_level, options.optimized_model_filepath = 3, str(saved)
            options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
            ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            checker.compare(f"optimized {name} saved at {level.lower()}", saved, feeds, 1e-5)
        for tool, convert in (("onnxruntime", float16.convert_float_to_float16), ("onnxconverter-common", common_float16.convert_float_to_float16)):
            half = folder / f"{name}.half.onnx"
            onnx.save(convert(onnx.load(path), keep_io_types=True), half)
            # The FP32 model is the judge: on the CPU, ONNX Runtime computes parts of FP16 models in FP32.
            checker.compare(f"optimized {name} in FP16 by {tool}", half, feeds, 1e-2, reference=path)
        for file in folder.glob(f"{name}.*"):
            file.unlink()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    build = args.build.resolve()
    enter_environment(build)
    checker = Checker(build)
    with tempfile.TemporaryDirectory() as folder:
        scikit(checker, pathlib.Path(folder), args.only)
        optimized(checker, build, pathlib.Path(folder), args.only)
    print(f"{checker.passed} agree, {checker.failed} do not")
    return 1 if checker.failed else 0


if __name__ == "__main__":
    sys.exit(main())
