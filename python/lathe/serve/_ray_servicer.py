# SPDX-License-Identifier: Apache-2.0
"""KServe's gRPC service for Ray's proxies, which send its messages to replicas. KServe's messages name a module that nobody can import; in a
process that has imported this one it is there."""
import sys

from ._without_arguments import without_arguments

with without_arguments():
    from kserve.protocol.grpc import grpc_predict_v2_pb2, grpc_predict_v2_pb2_grpc

sys.modules.setdefault(grpc_predict_v2_pb2.ModelInferRequest.__module__, grpc_predict_v2_pb2)
add_servicer = grpc_predict_v2_pb2_grpc.add_GRPCInferenceServiceServicer_to_server
