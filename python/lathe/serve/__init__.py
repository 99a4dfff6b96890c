# SPDX-License-Identifier: Apache-2.0
"""Engines as a service: `python -m lathe serve`, and the same in a program. docs/serving.md.

The server needs `pip install lathe[serve]`, ray_app() needs `pip install lathe[ray]`; batchers and models need neither.
"""
from .._errors import InputError
from ._batcher import Batcher, Busy, Closed, Observer, Policy
from ._models import Model, Options, find, open_model

__all__ = ["Batcher", "Busy", "Closed", "Model", "Observer", "Options", "Policy", "RAY_GRPC_SERVICER", "Server",
           "find", "open_model", "ray_app", "serve"]

RAY_GRPC_SERVICER = "lathe.serve._ray_servicer.add_servicer"  # what Ray's gRPCOptions.grpc_servicer_functions takes

_LAZY = {"Server": "_server", "serve_until_stopped": "_server", "ray_app": "_ray"}
_EXTRAS = {"_server": "serve", "_ray": "ray"}


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'lathe.serve' has no attribute '{name}'")
    import importlib

    try:
        return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    except ImportError as error:
        extra = _EXTRAS[_LAZY[name]]
        raise InputError(f"lathe.serve.{name} needs packages that are not installed", why=str(error),
                         hint=f"pip install 'lathe[{extra}]'") from None


def serve(models, **server):
    """Serves models until SIGTERM or SIGINT, then answers what came and returns. server: the words of Server."""
    import asyncio

    asyncio.run(__getattr__("serve_until_stopped")(models, **server))
