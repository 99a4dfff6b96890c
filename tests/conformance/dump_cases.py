#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes ONNX's own node tests as folders: CASES/<release>/<case>/model.onnx and test_data_set_0/{input,output}_N.pb.

Two releases, because operators change: 1.23 makes its cases by Python code (its wheel has no data files any more), and the wheel of 1.19
carries the files of its time, with the opsets of its time. Does nothing when the folder is complete already.

usage: dump_cases.py CASES
needs: the onnx of requirements.txt; pip downloads the wheel of 1.19 once (it is not installed)
"""
import pathlib, shutil, subprocess, sys, tempfile, zipfile

OLD = "1.19.0"


def write_case(folder, case):
    from onnx import TensorProto, numpy_helper
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    names = ([i.name for i in case.model.graph.input], [o.name for o in case.model.graph.output])
    for number, data in enumerate(case.data_sets or []):
        place = folder / f"test_data_set_{number}"
        place.mkdir()
        for kind, values, labels in zip(("input", "output"), data, names):
            for i, value in enumerate(values):
                if not isinstance(value, TensorProto):
                    try:
                        value = numpy_helper.from_array(value, labels[i])
                    except Exception:  # sequences and optionals: the model is refused before its data is read
                        continue
                (place / f"{kind}_{i}.pb").write_bytes(value.SerializeToString())


def dump_new(target):
    import onnx
    from onnx.backend.test.case.node import collect_testcases
    seen = set()
    for case in collect_testcases():
        if case.name not in seen:
            seen.add(case.name)
            write_case(target / case.name, case)
    print(f"onnx {onnx.__version__}: {len(seen)} cases")


def dump_old(target):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "-d", folder,
                        f"onnx=={OLD}"], check=True)
        wheel = next(pathlib.Path(folder).glob("*.whl"))
        prefix = "onnx/backend/test/data/node/"
        count = 0
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.startswith(prefix) and not member.endswith("/"):
                    path = target / member[len(prefix):]
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(archive.read(member))
                    count += member.endswith("model.onnx")
    print(f"onnx {OLD}: {count} cases")


def main(cases):
    for name, dump in (("1.23", dump_new), ("1.19", dump_old)):
        target, stamp = cases / name, cases / f"{name}.done"
        if stamp.exists():
            continue
        shutil.rmtree(target, ignore_errors=True)
        dump(target)
        stamp.touch()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
