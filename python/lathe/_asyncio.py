# SPDX-License-Identifier: Apache-2.0
"""Calls that an event loop can wait for. Each has a context of its own, so that they run side by side."""
import asyncio
import functools


async def run(engine, *inputs, **named):
    return await asyncio.get_running_loop().run_in_executor(None, functools.partial(engine, *inputs, **named))
