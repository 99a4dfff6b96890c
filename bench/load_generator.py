#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Half uses one core: pinned to it, computes for 2 ms and sleeps for 2 ms, until it is ended or its parent is gone.

usage: load_generator.py [CPU [ON_MS OFF_MS]]
Prints "ready" when it runs. No imports beyond the interpreter's own: it starts in milliseconds.
"""
import os
import sys
import time


def main():
    cpu = int(sys.argv[1]) if len(sys.argv) > 1 else min(os.sched_getaffinity(0))
    on_ms, off_ms = map(float, sys.argv[2:4]) if len(sys.argv) > 3 else (2.0, 2.0)
    os.sched_setaffinity(0, {cpu})
    parent = os.getppid()
    print("ready", flush=True)
    while os.getppid() == parent:
        # Its own computing time counts, not the clock's: who is kept off the core still asks for its 2 ms.
        end = time.thread_time() + on_ms / 1e3
        while time.thread_time() < end:
            pass
        time.sleep(off_ms / 1e3)


if __name__ == "__main__":
    main()
