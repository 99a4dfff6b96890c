# SPDX-License-Identifier: Apache-2.0
"""python -m lathe serve: the words of its command line."""
from . import serve as serving
from ._errors import InputError
from ._inputs import parse_shapes


def add_arguments(parser):
    parser.add_argument("path", metavar="DIR|model.onnx|model.engine", help="a model, an engine file, or a folder of them")
    parser.add_argument("--name", help="of the only model (default: its file's)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all (default 127.0.0.1)")
    parser.add_argument("--http-port", type=int, default=8080, metavar="N", help="0: any (default 8080)")
    parser.add_argument("--grpc-port", type=int, default=8081, metavar="N", help="0: any (default 8081)")
    parser.add_argument("--max-batch", type=int, default=1, metavar="ROWS", help="requests run together up to so many rows of the first dim")
    parser.add_argument("--preferred", default="", metavar="4,8", help="batches of these sizes do not wait for more")
    parser.add_argument("--max-delay-ms", type=float, default=0, metavar="MS", help="so long a request waits for company (default 0)")
    parser.add_argument("--max-queue", type=int, default=128, metavar="N", help="requests that wait; more get 429 (default 128)")
    parser.add_argument("--streams", type=int, default=1, metavar="N", help="batches that run at the same time (default 1)")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="of an engine; 0: all that this process may use")
    for which, meaning in (("", "dynamic inputs are tuned for these"), ("min-", "the smallest that come"), ("max-", "the largest")):
        parser.add_argument(f"--{which}shapes", default="", metavar="NAME:1x128,...", help=f"{meaning}; the first dim is the batch")
    parser.add_argument("--precision", default="model", choices=("model", "fp16", "bf16", "best"))
    parser.add_argument("--level", type=int, default=3, help="of tuning, 0 to 5 (default 3)")
    parser.add_argument("--timing-cache", metavar="FILE", help="of measured times, read and written")
    parser.add_argument("--max-request-mb", type=int, default=64, metavar="N", help="larger requests get 413 (default 64)")
    parser.add_argument("--grace-seconds", type=int, default=30, metavar="N", help="for requests in flight at the end (default 30)")
    parser.set_defaults(function=serve)


def serve(arguments):
    files = serving.find(arguments.path)
    if arguments.name:
        if len(files) != 1:
            raise InputError(f"{len(files)} models have names of their own", where="--name", hint="leave it out, or serve one file")
        files = {arguments.name: next(iter(files.values()))}
    options = options_of(arguments)
    serving.serve([serving.open_model(name, file, options) for name, file in files.items()], host=arguments.host,
                  http_port=arguments.http_port, grpc_port=arguments.grpc_port, max_request_bytes=arguments.max_request_mb << 20,
                  grace_seconds=arguments.grace_seconds)
    return 0


def options_of(arguments):
    sizes = arguments.preferred.split(",") if arguments.preferred else []
    if not all(size.isdigit() for size in sizes):
        raise InputError(f"'{arguments.preferred}' is no list of sizes", where="--preferred", hint="for example 4,8")
    policy = serving.Policy(arguments.max_batch, tuple(map(int, sizes)), arguments.max_delay_ms / 1000, arguments.max_queue, arguments.streams)
    return serving.Options(parse_shapes(arguments.shapes), parse_shapes(arguments.min_shapes), parse_shapes(arguments.max_shapes),
                           arguments.precision, arguments.level, arguments.threads, arguments.timing_cache, policy)
