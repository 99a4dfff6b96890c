# SPDX-License-Identifier: Apache-2.0
"""Clocks, power limit and a monitor of an NVIDIA GPU while a block of code runs (NVML, package nvidia-ml-py).

    with GPUConfigurator(compute_clk=1410, memory_clk=1215, power_limit=300), GPUMonitor(True) as monitor:
        measure()
    monitor.samples

What the machine does not permit is said once, with the nvidia-smi command that would do it; the block runs all the same.
`lathe process` has the same as flags, without Python.
"""
from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

_log = logging.getLogger(__name__)


def _nvml() -> Any:
    try:
        import pynvml
    except ImportError:
        raise ImportError("clocks and power are read with NVML: pip install 'lathe-explorer[gpu]'") from None
    return pynvml


@contextmanager
def nvmlContext(gpu_id: int = 0, nvml: Any = None) -> Iterator[tuple[Any, Any]]:
    """The NVML module and a device of it. Raises RuntimeError where there is no driver."""
    module = nvml or _nvml()
    try:
        module.nvmlInit()
    except module.NVMLError as error:
        raise RuntimeError(f"NVML does not start: {error}. Is there an NVIDIA driver?") from None
    try:
        yield module, module.nvmlDeviceGetHandleByIndex(gpu_id)
    finally:
        module.nvmlShutdown()


def get_max_clocks(dev: int = 0, nvml: Any = None) -> tuple[int, int]:
    """The highest memory clock and the highest graphics clock that goes with it, in MHz."""
    with nvmlContext(dev, nvml) as (module, handle):
        memory = max(module.nvmlDeviceGetSupportedMemoryClocks(handle))
        return memory, max(module.nvmlDeviceGetSupportedGraphicsClocks(handle, memory))


class GPUMonitor:
    """Reads clocks, power, temperature, use and throttling in a thread; `samples` has them afterwards."""

    def __init__(self, enabled: bool, gpu_id: int = 0, sampling_interval: float = 1.0, nvml: Any = None, print_samples: bool = True):
        self.enabled, self.gpu_id, self.sampling_interval, self._module, self._print = enabled, gpu_id, sampling_interval, nvml, print_samples
        self.samples: list[dict[str, Any]] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        start = time.monotonic()
        with nvmlContext(self.gpu_id, self._module) as (nvml, handle):
            while True:
                self.samples.append({"at_ms": 1000 * (time.monotonic() - start), **_sample(nvml, handle)})
                if self._print:
                    print(" ".join(f"{k}={v}" for k, v in self.samples[-1].items()))
                if self._done.wait(self.sampling_interval):
                    return

    def __enter__(self) -> GPUMonitor:
        if self.enabled:
            with nvmlContext(self.gpu_id, self._module):
                pass  # what is missing is said here, not in the thread
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self._done.set()
        if self.enabled:
            self._thread.join()


def _sample(nvml: Any, handle: Any) -> dict[str, Any]:
    """One reading; what the device does not tell is None."""

    def read(function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(handle, *arguments)
        except nvml.NVMLError:
            return None

    power, use = read(nvml.nvmlDeviceGetPowerUsage), read(nvml.nvmlDeviceGetUtilizationRates)
    reasons = read(nvml.nvmlDeviceGetCurrentClocksThrottleReasons)
    quiet = nvml.nvmlClocksThrottleReasonGpuIdle | nvml.nvmlClocksThrottleReasonApplicationsClocksSetting
    return {"core_mhz": read(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM), "memory_mhz": read(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
            "temperature_c": read(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU), "power_w": None if power is None else power / 1000,
            "gpu_percent": getattr(use, "gpu", None), "memory_percent": getattr(use, "memory", None),
            "throttled": None if reasons is None else bool(reasons & ~quiet)}


class GPUConfigurator:
    """Power limit (within the board's range) and locked clocks for a block; both are put back after it."""

    def __init__(self, power_limit: float | None = None, compute_clk: int | None = None, memory_clk: int | None = None, gpu_id: int = 0,
                 dont_lock_clocks: bool = False, nvml: Any = None):
        self.power_limit, self.compute_clk, self.memory_clk, self.gpu_id, self._module = power_limit, compute_clk, memory_clk, gpu_id, nvml
        self.lock = compute_clk is not None and not dont_lock_clocks
        self._undo: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = []

    def _try(self, nvml: Any, handle: Any, what: str, command: str, function: Callable[..., Any], *arguments: Any) -> bool:
        try:
            function(handle, *arguments)
            _log.warning("%s", what)
            return True
        except nvml.NVMLError as error:
            _log.warning("%s: not done (%s). Try: sudo nvidia-smi %s", what, error, command)
            return False

    def __enter__(self) -> GPUConfigurator:
        if self.power_limit is None and not self.lock:
            return self
        with nvmlContext(self.gpu_id, self._module) as (nvml, handle):
            if self.power_limit is not None:
                low, high = nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
                before = nvml.nvmlDeviceGetPowerManagementLimit(handle)
                limit = int(min(high, max(low, self.power_limit * 1000)))
                if self._try(nvml, handle, f"power limit {limit / 1000} W", f"--power-limit={limit // 1000}", nvml.nvmlDeviceSetPowerManagementLimit, limit):
                    self._undo.append((f"--power-limit={before // 1000}", nvml.nvmlDeviceSetPowerManagementLimit, (before,)))
            if self.lock:
                clock = self.compute_clk
                if self._try(nvml, handle, f"compute clock {clock} MHz", f"--lock-gpu-clocks={clock},{clock}", nvml.nvmlDeviceSetGpuLockedClocks, clock, clock):
                    self._undo.append(("--reset-gpu-clocks", nvml.nvmlDeviceResetGpuLockedClocks, ()))
                memory = self.memory_clk
                if memory is not None and self._try(nvml, handle, f"memory clock {memory} MHz", f"--lock-memory-clocks={memory},{memory}",
                                                    nvml.nvmlDeviceSetMemoryLockedClocks, memory, memory):
                    self._undo.append(("--reset-memory-clocks", nvml.nvmlDeviceResetMemoryLockedClocks, ()))
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        if not self._undo:
            return
        with nvmlContext(self.gpu_id, self._module) as (nvml, handle):
            for command, function, arguments in reversed(self._undo):
                self._try(nvml, handle, "put back", command, function, *arguments)
        self._undo.clear()
