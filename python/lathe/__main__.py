# SPDX-License-Identifier: Apache-2.0
"""python -m lathe run model.onnx --input cat.jpg --compare onnxruntime
python -m lathe bench model.onnx --batches 1,8 --threads 1,2 --against onnxruntime
python -m lathe serve models/ --max-batch 8 --max-delay-ms 2"""
import argparse
import sys

from . import Error, version
from ._bench import bench
from ._run import run
from ._serve import add_arguments as add_serve_arguments


def _parser():
    parser = argparse.ArgumentParser(prog="lathe", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=version())
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="run a model once, say what comes out, and whether another engine says the same")
    one.add_argument("model", help="an ONNX model, or an engine file")
    one.add_argument("--input", action="append", default=[], metavar="[NAME:]FILE", help="a picture, .npy or .npz; others are random")
    one.add_argument("--shapes", default="", metavar="NAME:1x3x224x224,...", help="of dynamic inputs; otherwise 1 for each dynamic dim")
    one.add_argument("--preprocess", default="imagenet", help="of pictures: imagenet, unit, signed, pixels")
    one.add_argument("--compare", choices=("onnxruntime", "openvino"), help="exit code 1 where the outputs differ")
    one.add_argument("--tolerance", type=float, default=1e-3, help="largest relative L2 error (default 0.001)")
    one.add_argument("--labels", metavar="FILE", help="a line for each class")
    one.add_argument("--top", type=int, default=5, metavar="N")
    one.set_defaults(function=run, level=0)
    many = commands.add_parser("bench", help="time a model beside other engines, for batches and threads")
    many.add_argument("model", help="an ONNX model")
    many.add_argument("--batches", default="1", metavar="1,8,32")
    many.add_argument("--against", default="", metavar="onnxruntime,openvino")
    many.add_argument("--shapes", default="", metavar="NAME:1x128,...", help="of inputs at batch 1; the first dim is the batch")
    many.add_argument("--duration", type=float, default=3, metavar="SECONDS", help="for each line of the table (default 3)")
    many.add_argument("--picture", metavar="FILE.svg", help="the table as bars")
    many.set_defaults(function=bench, level=3)
    for command in (one, many):
        command.add_argument("--precision", default="model", choices=("model", "fp16", "bf16", "best"))
        command.add_argument("--level", type=int, help="of tuning, 0 to 5 (run: 0, bench: 3)")
    one.add_argument("--threads", type=int, default=0, metavar="N")
    many.add_argument("--threads", default="0", metavar="1,2", help="0: all that this process may use")
    add_serve_arguments(commands.add_parser("serve", help="answer requests of the Open Inference Protocol over HTTP and gRPC"))
    return parser


def main():
    arguments = _parser().parse_args()
    try:
        return arguments.function(arguments)
    except (Error, OSError) as error:
        print(f"lathe {arguments.command}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
