# SPDX-License-Identifier: Apache-2.0
"""The Open Inference Protocol of KServe's server over HTTP and gRPC, in front of batchers.

Endpoints, their data types and the gRPC service are KServe's (its v2 endpoints and servicer); uvicorn and grpc.aio are the servers.
What is here puts them together: models behind batchers, errors as status codes, metrics, and the order of a stop.
"""
import asyncio
import contextlib
import signal
import socket

import fastapi
import grpc
import prometheus_client
import uvicorn
from grpc_interceptor import exceptions

from .._errors import Error, InputError
from ._batcher import Batcher, Busy, Closed
from ._metrics import BatchMetrics
from ._models import DATATYPES
from ._without_arguments import without_arguments

with without_arguments():
    from kserve import Model as KServeModel
    from kserve import ModelRepository
    from kserve import errors as kserve_errors
    from kserve.protocol.dataplane import DataPlane
    from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc
    from kserve.protocol.grpc.interceptors import ExceptionToStatusInterceptor
    from kserve.protocol.grpc.servicer import InferenceServicer
    from kserve.protocol.model_repository_extension import ModelRepositoryExtension
    from kserve.protocol.rest.v2_endpoints import register_v2_endpoints

    from ._tensors import inputs_of, outputs_wanted, read_binary, response_of

HTTP_OF_GRPC = {grpc.StatusCode.RESOURCE_EXHAUSTED: 429, grpc.StatusCode.UNAVAILABLE: 503}


class ServedModel(KServeModel):
    """A model as KServe's endpoints see it."""

    def __init__(self, model):
        super().__init__(model.name)
        self.model = model
        self.batcher = Batcher(model.run, model.policy, BatchMetrics(model.name))
        self.ready = True

    async def predict(self, request, headers=None, response_headers=None):
        arrays, wanted = inputs_of(request, self.model), outputs_wanted(request, self.model)
        try:
            outputs = await self.batcher.submit(arrays)
        except Busy as error:
            raise exceptions.ResourceExhausted(str(error)) from None
        except Closed as error:
            raise exceptions.Unavailable(str(error)) from None
        except InputError as error:
            raise kserve_errors.InvalidInput(str(error)) from None
        return response_of(request, self.model, wanted, outputs)

    def get_input_types(self):
        return [_described(t) for t in self.model.inputs]

    def get_output_types(self):
        return [_described(t) for t in self.model.outputs]

    async def drain(self):
        self.ready = False
        await self.batcher.drain()


def _described(tensor):
    return {"name": tensor.name, "datatype": DATATYPES[tensor.dtype], "shape": list(tensor.shape)}


class _Plane(DataPlane):
    """KServe's, with binary requests read as arrays. Not ready while it stops."""
    stopping = False

    def decode_inference_request(self, body, headers, model_name):
        if isinstance(body, bytes):
            return read_binary(body, headers.get("inference-header-content-length"), model_name)
        return super().decode_inference_request(body, headers, model_name)

    async def ready(self):
        return not self.stopping


def make_plane(served):
    repository = ModelRepository()
    for model in served:
        repository.update(model)
    return _Plane(repository)


def make_app(plane, max_request_bytes):
    """The HTTP side, an ASGI application."""
    app = fastapi.FastAPI(title="Lathe", docs_url=None, redoc_url=None, openapi_url=None)
    register_v2_endpoints(app, plane, _extension(plane))

    statuses = {kserve_errors.InvalidInput: 400, kserve_errors.ModelNotFound: 404, kserve_errors.ModelNotReady: 503,
                kserve_errors.ServerNotReady: 503, NotImplementedError: 501}
    for kind, status in statuses.items():
        app.add_exception_handler(kind, _answer_with(status))
    app.add_exception_handler(exceptions.GrpcException, _answer_as_grpc)
    app.add_exception_handler(Exception, _answer_with(500))
    app.add_middleware(_BodyLimit, most=max_request_bytes)
    return app


async def _metrics():
    return fastapi.Response(prometheus_client.generate_latest(), media_type=prometheus_client.CONTENT_TYPE_LATEST)


def make_servicer(plane):
    """The gRPC side."""
    return InferenceServicer(plane, _extension(plane))


def grpc_status(error):
    """The status and the text of what a servicer raised, as KServe's interceptor has it."""
    if isinstance(error, exceptions.GrpcException):
        return error.status_code, error.details
    for kinds, code in ((kserve_errors.InvalidInput, grpc.StatusCode.INVALID_ARGUMENT), (kserve_errors.ModelNotFound, grpc.StatusCode.NOT_FOUND),
                        (kserve_errors.ModelNotReady, grpc.StatusCode.UNAVAILABLE)):
        if isinstance(error, kinds):
            return code, str(error)
    return grpc.StatusCode.INTERNAL, "Internal server error"


def _extension(plane):
    return ModelRepositoryExtension(model_registry=plane.model_registry)


def _answer_with(status):
    async def answer(_, error):
        return fastapi.responses.JSONResponse({"error": str(error)}, status)
    return answer


async def _answer_as_grpc(_, error):
    status = HTTP_OF_GRPC.get(error.status_code, 500)
    return fastapi.responses.JSONResponse({"error": error.details}, status, headers={"Retry-After": "1"} if status in (429, 503) else None)


class _BodyLimit:
    """Refuses larger bodies with 413 before they are in memory."""

    def __init__(self, app, most):
        self.app, self.most = app, most

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        came = 0

        async def counted():
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > self.most:
                raise fastapi.HTTPException(413, f"the request has more than {self.most} bytes")
            return message
        await self.app(scope, counted, send)


class _Uvicorn(uvicorn.Server):
    """Its signals are ours: both servers stop together."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield


class Server:
    """async with Server(models, ...) as server: it answers at server.http_port and server.grpc_port. Leaving drains it."""

    def __init__(self, models, *, host="127.0.0.1", http_port=8080, grpc_port=8081, max_request_bytes=64 << 20, grace_seconds=30):
        self._models, self._host, self._ports = models, host, (http_port, grpc_port)
        self._most, self._grace = max_request_bytes, grace_seconds

    async def __aenter__(self):
        self._served = [ServedModel(m) for m in self._models]
        self._plane = make_plane(self._served)
        listener = _listen(self._host, self._ports[0])
        self.http_port = listener.getsockname()[1]
        self._grpc, self.grpc_port = self._make_grpc()
        app = make_app(self._plane, self._most)
        app.add_api_route("/metrics", _metrics)
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off",
                                timeout_graceful_shutdown=self._grace)
        self._http = _Uvicorn(config)
        self._http_running = asyncio.create_task(self._http.serve(sockets=[listener]))
        await self._grpc.start()
        while not self._http.started and not self._http_running.done():
            await asyncio.sleep(0.01)
        return self

    async def __aexit__(self, *_):
        """Takes no new connections, answers what came, and ends."""
        self._plane.stopping = True
        self._http.should_exit = True
        await asyncio.gather(self._http_running, self._grpc.stop(self._grace))
        await asyncio.gather(*(model.drain() for model in self._served))

    def _make_grpc(self):
        sizes = [(f"grpc.max_{way}_message_length", self._most) for way in ("send", "receive")]
        server = grpc.aio.server(interceptors=[ExceptionToStatusInterceptor()], options=[*sizes, ("grpc.so_reuseport", 0)])
        grpc_predict_v2_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(make_servicer(self._plane), server)
        host = f"[{self._host}]" if ":" in self._host else self._host
        try:
            return server, server.add_insecure_port(f"{host}:{self._ports[1]}")
        except RuntimeError as error:
            raise InputError(f"cannot listen on {host}:{self._ports[1]}", where="--grpc-port", why=str(error)) from None


def _listen(host, port):
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048)
    except OSError as error:
        raise InputError(f"cannot listen on {host}:{port}", where="--http-port", why=str(error)) from None


async def serve_until_stopped(models, **settings):
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Server(models, **settings) as server:
        names = ", ".join(m.name for m in models)
        print(f"Serving {names} at http://{server._host}:{server.http_port}, gRPC at {server._host}:{server.grpc_port}", flush=True)
        await stop.wait()
        print("Stopping: what came is answered first", flush=True)
    print("Stopped", flush=True)
