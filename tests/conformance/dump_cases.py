#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes ONNX's own tests as folders: CASES/<release>/<case>/model.onnx and test_data_set_0/{input,output}_N.pb.
A sequence is a folder {input,output}_N with a file for each of its tensors, 0.pb, 1.pb, ...; an empty folder is an empty sequence, or an
optional without a value.

Node tests of two releases, because operators change: 1.23 makes its cases by Python code (its wheel has no data files any more), and the
wheel of 1.19 carries the files of its time, with the opsets of its time. From that wheel come the suites simple, pytorch-operator and
pytorch-converted, too (CASES/suites), and light (CASES/light): public networks whose weights are all alike. Does nothing when the
folders are complete already.

usage: dump_cases.py CASES
needs: the onnx of requirements.txt; pip downloads the wheel of 1.19 once (it is not installed)
"""
import hashlib, pathlib, shutil, subprocess, sys, tempfile, zipfile

OLD = "1.19.0"


def write_value(place, name, value, label):
    """A tensor, a list of tensors, or None."""
    from onnx import TensorProto, numpy_helper
    if value is None or isinstance(value, list):
        (place / name).mkdir()
        for i, element in enumerate(value or []):
            write_value(place / name, str(i), element, f"{label}_{i}")
        return
    if not isinstance(value, TensorProto):
        value = numpy_helper.from_array(value, label)
    (place / f"{name}.pb").write_bytes(value.SerializeToString())


def write_case(folder, case):
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    names = ([i.name for i in case.model.graph.input], [o.name for o in case.model.graph.output])
    for number, data in enumerate(case.data_sets or []):
        place = folder / f"test_data_set_{number}"
        place.mkdir()
        for kind, values, labels in zip(("input", "output"), data, names):
            for i, value in enumerate(values):
                write_value(place, f"{kind}_{i}", value, labels[i])


def dump_new(target):
    import onnx
    from onnx.backend.test.case.node import collect_testcases
    seen = set()
    for case in collect_testcases():
        if case.name not in seen:
            seen.add(case.name)
            write_case(target / case.name, case)
    print(f"onnx {onnx.__version__}: {len(seen)} cases")


def open_old(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "-d", folder,
                    f"onnx=={OLD}"], check=True)
    return zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl")))


def extract(archive, suite, target, prefix=""):
    start, count = f"onnx/backend/test/data/{suite}/", 0
    for member in archive.namelist():
        if member.startswith(start) and not member.endswith("/"):
            path = target / f"{prefix}{member[len(start):]}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(member))
            count += member.endswith("model.onnx")
    print(f"onnx {OLD}, {suite}: {count} cases")


def unpack_lists(case):
    """Sequences and optionals of a case's files become what write_value() makes of them."""
    import onnx
    from onnx import numpy_helper
    graph = onnx.load(case / "model.onnx").graph
    for kind, infos in (("input", graph.input), ("output", graph.output)):
        for i, info in enumerate(infos):
            of = info.type.WhichOneof("value")
            for file in case.glob(f"test_data_set_*/{kind}_{i}.pb") if of != "tensor_type" else ():
                proto = onnx.SequenceProto() if of == "sequence_type" else onnx.OptionalProto()
                proto.ParseFromString(file.read_bytes())
                file.unlink()
                value = numpy_helper.to_list(proto) if of == "sequence_type" else numpy_helper.to_optional(proto)
                write_value(file.parent, f"{kind}_{i}", value, info.name)


def dump_old(target):
    with tempfile.TemporaryDirectory() as folder, open_old(folder) as archive:
        extract(archive, "node", target)
    for case in target.iterdir():
        unpack_lists(case)


def dump_suites(target):
    with tempfile.TemporaryDirectory() as folder, open_old(folder) as archive:
        for suite in ("simple", "pytorch-operator", "pytorch-converted"):
            extract(archive, suite, target, f"{suite}-")


def dump_light(target):
    """Networks with one file of results each; the input counts up from 0 to 1."""
    import numpy as np
    import onnx
    from onnx import numpy_helper
    with tempfile.TemporaryDirectory() as folder, open_old(folder) as archive:
        names = [n for n in archive.namelist() if n.startswith("onnx/backend/test/data/light/") and n.endswith(".onnx")]
        for name in names:
            place = target / pathlib.Path(name).stem / "test_data_set_0"
            place.mkdir(parents=True)
            model = archive.read(name)
            (place.parent / "model.onnx").write_bytes(model)
            graph = onnx.load_from_string(model).graph
            known = {t.name for t in graph.initializer}
            for i, value in enumerate(graph.input):  # weights among them, which have their values
                if value.name in known:
                    continue
                shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
                array = np.linspace(0, 1, np.prod(shape), endpoint=False, dtype=np.float32).reshape(shape)
                (place / f"input_{i}.pb").write_bytes(numpy_helper.from_array(array, value.name).SerializeToString())
            (place / "output_0.pb").write_bytes(archive.read(name.replace(".onnx", "_output_0.pb")))
        print(f"onnx {OLD}, light: {len(names)} cases")


def main(cases):
    version = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()  # cases made by another version of this script are made anew
    for name, dump in (("1.23", dump_new), ("1.19", dump_old), ("suites", dump_suites), ("light", dump_light)):
        target, stamp = cases / name, cases / f"{name}.done"
        if stamp.exists() and stamp.read_text() == version:
            continue
        shutil.rmtree(target, ignore_errors=True)
        dump(target)
        stamp.write_text(version)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
