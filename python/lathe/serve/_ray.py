# SPDX-License-Identifier: Apache-2.0
"""The server's HTTP side as a Ray Serve application: Ray has the listeners, the routing, the replicas and their number."""
import dataclasses

import ray
from ray import serve

from .._errors import InputError
from ._models import Options, find, open_model


def ray_app(path, options=Options(), *, max_request_bytes=64 << 20, **deployment):
    """An application for ray.serve.run(): replicas that answer the Open Inference Protocol under /v2, each with its own batchers.

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

    def build():
        from ._server import ServedModel, make_app, make_plane

        threads = options.threads or max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
        own = dataclasses.replace(options, threads=threads)
        return make_app(make_plane([ServedModel(open_model(name, file, own)) for name, file in find(path).items()]), max_request_bytes)

    return serve.deployment(**deployment)(serve.ingress(build)()).bind()
