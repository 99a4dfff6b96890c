# SPDX-License-Identifier: Apache-2.0
"""Many engines in little memory: shared_memory.py MODEL.onnx

All memory of the device comes from one pool with a limit. Contexts take activations for the time of a run, so eight that run in turn need no more
than one.
"""
import sys

import numpy as np

import lathe


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    pool = lathe.MemoryPool(limit_bytes=1 << 30)
    network = lathe.Builder().parse_onnx(sys.argv[1])
    shapes = {t.name: tuple(1 if d < 0 else d for d in t.shape) for t in network.inputs}
    plan = lathe.compile(network, shapes, level=0).serialize()
    engine = lathe.Runtime(allocator=pool).load_bytes(plan)
    print(f"weights: {pool.used_bytes} bytes")
    arrays = [np.ones(shapes[t.name], t.dtype) for t in engine.inputs]
    results = []
    for _ in range(8):
        context = lathe.ExecutionContext(engine)
        context.set_allocator(pool)
        results.append(context.run(arrays)[0])
    assert all(np.array_equal(r, results[0]) for r in results)
    print(f"8 contexts of {context.memory_bytes} bytes each: {pool.peak_bytes} bytes at most")
    context = engine = None
    print(f"given back: {pool.trim()} bytes")


if __name__ == "__main__":
    main()
