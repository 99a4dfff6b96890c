# SPDX-License-Identifier: Apache-2.0
"""A build that is followed, stopped, and gone on with: long_build.py MODEL.onnx CACHE

What was timed before the stop is in the timing cache, so the second build begins where the first one ended. Then one decision of the tuner is
changed by hand.
"""
import sys
import time

import lathe


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    builder = lathe.Builder()
    network = builder.parse_onnx(sys.argv[1])
    config = lathe.BuilderConfig()
    config.optimization_level = 2
    config.timing_cache.load(sys.argv[2])

    def stop_half_way(stage, done, total, remaining_seconds):
        print(f"\r{stage}: {done} of {total}   ", end="", flush=True)
        return stage != "Tuning" or done * 2 < total

    try:
        builder.build(network, config, stop_half_way)
    except lathe.Cancelled as error:
        print(f"\nstopped: {error}")
    config.timing_cache.save(sys.argv[2])
    known = len(config.timing_cache)
    start = time.perf_counter()
    builder.build(network, config)
    print(f"gone on in {time.perf_counter() - start:.1f} s: {known} times were known, {len(config.timing_cache) - known} are new")

    # The layer with most rivals: make the slowest of them the one to take.
    rivals = {}
    for entry in config.timing_cache.entries():
        if entry.milliseconds > 0:
            rivals.setdefault(entry.signature, []).append(entry)
    contest = sorted(max(rivals.values(), key=len), key=lambda entry: entry.milliseconds)
    for entry in contest:
        print(f"  {entry.milliseconds:8.4f} ms  {entry.about.split(' | ')[0]}")
    config.timing_cache.set_time(contest[-1], contest[0].milliseconds / 1000)
    layers = builder.build(network, config).layers()
    chosen = contest[-1].about.split(" | ")[0]
    print(f"{sum(layer['tactic'] == chosen for layer in layers)} layer(s) run with {chosen} now")


if __name__ == "__main__":
    main()
