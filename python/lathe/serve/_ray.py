# SPDX-License-Identifier: Apache-2.0
"""The server as a Ray Serve application: Ray has the listeners, the routing, the replicas and their number."""
import dataclasses

import ray
from ray import serve

from .._errors import InputError
from ._models import Options, find, open_model
from . import _ray_servicer  # noqa: F401  (a replica reads its messages)
from ._server import ServedModel, grpc_status, make_app, make_plane, make_servicer

_CALLS = ("ServerLive", "ServerReady", "ServerMetadata", "ModelReady", "ModelMetadata", "ModelInfer")


def ray_app(path, options=Options(), *, max_request_bytes=64 << 20, **deployment):
    """An application for ray.serve.run(): replicas that answer the Open Inference Protocol under /v2, each with its own batchers; over gRPC,
    too, where RAY_GRPC_SERVICER is one of serve.start()'s grpc_servicer_functions.

    path: a model, an engine file or a folder of them, which each replica opens: it is the same on all nodes. Engine files start in
        milliseconds; a model is built by each replica.
    options: as of open_model(). threads=0: as many as Ray gives CPUs to a replica.
    deployment: what ray.serve.deployment takes: num_replicas, autoscaling_config, ray_actor_options, ... By default a replica has as many
        requests in flight as fill its streams and the next batches, and Ray queues options.policy.max_queue more.
    """
    find(path)  # An error here is better than one in each replica's log.
    policy = options.policy
    deployment.setdefault("name", "lathe")
    deployment.setdefault("max_ongoing_requests", 2 * policy.max_batch * policy.streams)
    deployment.setdefault("max_queued_requests", policy.max_queue)
    if deployment["max_ongoing_requests"] < policy.max_batch:
        raise InputError(f"a replica with {deployment['max_ongoing_requests']} requests in flight has no batches of {policy.max_batch}",
                         where="max_ongoing_requests")

    return serve.deployment(**deployment)(serve.ingress()(_Replica)).bind(path, options, max_request_bytes)


class _Replica:
    """Ray calls the ASGI application for HTTP, and the method of a call's name for gRPC."""

    def __init__(self, path, options, max_request_bytes):
        threads = options.threads or max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
        own = dataclasses.replace(options, threads=threads)
        self._plane = make_plane([ServedModel(open_model(name, file, own)) for name, file in find(path).items()])
        self._servicer, self._most = make_servicer(self._plane), max_request_bytes

    def __serve_build_asgi_app__(self):
        return make_app(self._plane, self._most)


class _NoMetadata:
    def invocation_metadata(self):
        return []


def _grpc_call(name):
    async def call(self, request, grpc_context):
        try:
            return await getattr(self._servicer, name)(request, _NoMetadata())
        except Exception as error:
            code, details = grpc_status(error)
            grpc_context.set_code(code)
            grpc_context.set_details(details)
            raise
    return call


for _name in _CALLS:
    setattr(_Replica, _name, _grpc_call(_name))
