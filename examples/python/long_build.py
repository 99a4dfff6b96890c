# SPDX-License-Identifier: Apache-2.0
"""A build that is followed, stopped, and gone on with: long_build.py MODEL.onnx CACHE

What was timed before the stop is in the timing cache, so the second build begins where the first one ended. Then one decision of the tuner is
changed by hand.
"""
import sys
import time

import lathe


def tactic_of(entry):
    return entry.about.split(" | ")[0]


def layers_with(engine, tactic):
    return sum(layer["tactic"] == tactic for layer in engine.layers())


def promote_slowest(builder, network, config, timed, rivals):
    """Gives the slowest of a layer's candidates the shortest time. False when the next build does not take it: a layer has candidates for each
    format in which it could have been, and those in which it is count."""
    rivals.sort(key=lambda entry: entry.milliseconds)
    slowest = rivals[-1]
    config.timing_cache.set_time(slowest, rivals[0].milliseconds / 1000)
    now = layers_with(builder.build(network, config), tactic_of(slowest))
    if now <= layers_with(timed, tactic_of(slowest)):
        config.timing_cache.set_time(slowest, slowest.milliseconds)
        return False
    for entry in rivals:
        print(f"  {entry.milliseconds:8.4f} ms  {tactic_of(entry)}")
    print(f"{now} layer(s) run with {tactic_of(slowest)} now")
    return True


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
    timed = builder.build(network, config)
    print(f"gone on in {time.perf_counter() - start:.1f} s: {known} times were known, {len(config.timing_cache) - known} are new")

    layers = {}
    for entry in config.timing_cache.entries():
        if entry.milliseconds > 0:
            layers.setdefault(entry.signature, []).append(entry)
    for rivals in layers.values():
        if promote_slowest(builder, network, config, timed, rivals):
            break


if __name__ == "__main__":
    main()
