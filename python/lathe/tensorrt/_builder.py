# SPDX-License-Identifier: Apache-2.0
"""Builder and what a build depends on."""
import dataclasses
import os

import lathe

from . import _types as t
from ._logger import line_of, told
from ._memory import asked
from ._network import INetworkDefinition, NotSupported
from ._plugins import registry
from ._runtime import ICudaEngine

# Flags that have an effect, and those that change nothing because it is so anyway. All others raise.
_PRECISION_FLAGS = {t.BuilderFlag.FP16: "fp16", t.BuilderFlag.BF16: "bf16"}
_WITHOUT_EFFECT = {t.BuilderFlag.TF32, t.BuilderFlag.DEBUG, t.BuilderFlag.GPU_FALLBACK, t.BuilderFlag.DISABLE_COMPILATION_CACHE,
                   t.BuilderFlag.DIRECT_IO, t.BuilderFlag.MONITOR_MEMORY,
                   t.BuilderFlag.VERSION_COMPATIBLE, t.BuilderFlag.EXCLUDE_LEAN_RUNTIME, t.BuilderFlag.INT8, t.BuilderFlag.FP8,
                   t.BuilderFlag.EDITABLE_TIMING_CACHE, t.BuilderFlag.SPARSE_WEIGHTS, t.BuilderFlag.REFIT,
                   t.BuilderFlag.REFIT_IDENTICAL, t.BuilderFlag.REFIT_INDIVIDUAL}
_WITH_EFFECT = {*_PRECISION_FLAGS, t.BuilderFlag.OBEY_PRECISION_CONSTRAINTS, t.BuilderFlag.PREFER_PRECISION_CONSTRAINTS,
                t.BuilderFlag.STRICT_NANS, t.BuilderFlag.ERROR_ON_TIMING_CACHE_MISS,
                t.BuilderFlag.DISABLE_TIMING_CACHE, t.BuilderFlag.STRIP_PLAN}


class IOptimizationProfile:
    """Ranges of shapes, by the names of inputs."""

    def __init__(self):
        self._shapes, self._values, self.extra_memory_target = {}, {}, 1.0

    def set_shape(self, input, min, opt, max):  # noqa: A002
        self._shapes[input] = tuple(t.Dims(s) for s in (min, opt, max))

    def get_shape(self, input):  # noqa: A002
        return list(self._shapes.get(input, ()))

    def set_shape_input(self, input, min, opt, max):  # noqa: A002
        self._values[input] = tuple(list(v) for v in (min, opt, max))

    def get_shape_input(self, input):  # noqa: A002
        return list(self._values.get(input, ()))

    def __bool__(self):
        ranges = list(self._shapes.values()) + list(self._values.values())
        return all(len(a) == len(b) == len(c) and all(x <= y <= z for x, y, z in zip(a, b, c)) for a, b, c in ranges)

    def _for(self, network):
        profile = lathe.OptimizationProfile()
        names = {i.name for i in network.inputs}
        for name, (low, opt, high) in self._shapes.items():
            if name in names:
                profile.set_shape(name, list(low), list(opt), list(high))
        for name, (low, opt, high) in self._values.items():
            profile.set_values(name, low, opt, high)
        return profile


@dataclasses.dataclass(frozen=True)
class TimingCacheKey:
    """`str` of it is what it is made of; parse() reads that."""
    target: int
    signature: int

    def __str__(self):
        return f"0x{self.target:016x}{self.signature:016x}"

    @staticmethod
    def parse(text):
        return TimingCacheKey(int(text[2:18], 16), int(text[18:], 16))


@dataclasses.dataclass(frozen=True)
class TimingCacheValue:
    tactic_hash: int
    timing_msec: float


class ITimingCache:
    def __init__(self, blob=b""):
        self._cache = lathe.TimingCache()
        if blob:
            self._cache.merge_text(bytes(blob).decode())

    def serialize(self):
        return t.IHostMemory(self._cache.to_text().encode())

    def combine(self, input_cache, ignore_mismatch):
        self._cache.merge(input_cache._cache)
        return True

    def reset(self):
        self._cache = lathe.TimingCache()
        return True

    # --- edited
    def query_keys(self):
        """A key for each layer, in its types and formats."""
        return list(dict.fromkeys(TimingCacheKey(e.target, e.signature) for e in self._cache.entries()))

    queryKeys = query_keys  # noqa: N815

    def query(self, key):
        """The tactic with the least time."""
        return min((TimingCacheValue(e.tactic, e.milliseconds) for e in self._of(key) if e.milliseconds > 0),
                   key=lambda value: value.timing_msec, default=TimingCacheValue(0, 0.0))

    def query_all(self, key):
        """All tactics of the layer: Lathe's own."""
        return [TimingCacheValue(e.tactic, e.milliseconds) for e in self._of(key)]

    def update(self, key, value):
        """Gives a tactic another time: builds take that with the least. False where the cache has none of this key and tactic."""
        for entry in self._of(key):
            if entry.tactic == value.tactic_hash:
                self._cache.set_time(entry, value.timing_msec)
                return True
        return False

    def _of(self, key):
        return [e for e in self._cache.entries() if (e.target, e.signature) == (key.target, key.signature)]


class IProgressMonitor:
    """Derive from it: phase_start(phase_name, parent_phase, num_steps), step_complete(phase_name, step) -> bool, phase_finish(phase_name)."""


class _Monitored:
    def __init__(self, monitor):
        self.monitor, self.stage = monitor, None

    def __call__(self, stage, done, total, remaining_seconds):
        if stage != self.stage:
            self.finish()
            self.monitor.phase_start(stage, None, total)
            self.stage = stage
        return self.monitor.step_complete(stage, done) is not False

    def finish(self):
        if self.stage is not None:
            self.monitor.phase_finish(self.stage)
            self.stage = None


class IBuilderConfig:
    def __init__(self):
        self.reset()

    def reset(self):
        self.__dict__.update(
            flags=1 << t.BuilderFlag.TF32, builder_optimization_level=3, max_num_tactics=-1, avg_timing_iterations=1,
            profiling_verbosity=t.ProfilingVerbosity.LAYER_NAMES_ONLY, num_optimization_profiles=0, progress_monitor=None,
            engine_capability=t.EngineCapability.STANDARD, hardware_compatibility_level=t.HardwareCompatibilityLevel.NONE,
            runtime_platform=t.RuntimePlatform.SAME_AS_BUILD, default_device_type=t.DeviceType.GPU, max_aux_streams=-1, profile_stream=0,
            tiling_optimization_level=t.TilingOptimizationLevel.NONE, l2_limit_for_tiling=-1, plugins_to_serialize=[],
            _profiles=[], _pools={}, _cache=None, _sources=(1 << len(t.TacticSource)) - 1)

    def __setattr__(self, name, value):
        known = {"engine_capability": t.EngineCapability.STANDARD, "runtime_platform": t.RuntimePlatform.SAME_AS_BUILD,
                 "default_device_type": t.DeviceType.GPU}
        if name in ("int8_calibrator", "algorithm_selector") or name in known and value != known[name]:
            raise NotSupported(f"IBuilderConfig.{name}" + (f" {value}" if name in known else ""))
        if name not in self.__dict__:
            raise AttributeError(f"IBuilderConfig has no attribute {name}")
        super().__setattr__(name, value)

    # --- flags
    def set_flag(self, flag):
        if flag not in _WITH_EFFECT and flag not in _WITHOUT_EFFECT:
            raise NotSupported(str(flag))
        self.flags |= 1 << flag

    def clear_flag(self, flag):
        self.flags &= ~(1 << flag)

    def get_flag(self, flag):
        return self.flags >> flag & 1 == 1

    # --- limits, profiles, caches
    def set_memory_pool_limit(self, pool, pool_size):
        if pool.name.startswith("DLA"):
            raise NotSupported(f"MemoryPoolType.{pool.name}", "there is no DLA")
        self._pools[pool] = pool_size

    def get_memory_pool_limit(self, pool):
        return self._pools.get(pool, 0)

    def add_optimization_profile(self, profile):
        if not profile:
            return -1
        self._profiles.append(profile)
        self.num_optimization_profiles = len(self._profiles)
        return len(self._profiles) - 1

    def create_timing_cache(self, serialized_timing_cache):
        return ITimingCache(serialized_timing_cache)

    def set_timing_cache(self, cache, ignore_mismatch):
        self._cache = cache
        return True

    def get_timing_cache(self):
        return self._cache

    def set_tactic_sources(self, tactic_sources):
        self._sources = tactic_sources
        return True

    def get_tactic_sources(self):
        return self._sources

    def set_preview_feature(self, feature, enable):
        pass

    def get_preview_feature(self, feature):
        return True

    def set_calibration_profile(self, profile):
        raise NotSupported("IBuilderConfig.set_calibration_profile")

    def set_device_type(self, layer, device_type):
        if device_type != t.DeviceType.GPU:
            raise NotSupported("DeviceType.DLA", "there is no DLA")

    def can_run_on_DLA(self, layer):  # noqa: N802
        return False

    def _for(self, network, strongly_typed):
        config = lathe.BuilderConfig()
        for flag, name in _PRECISION_FLAGS.items():
            setattr(config, name, self.get_flag(flag) and not strongly_typed)
        config.strongly_typed = strongly_typed
        config.keep_nan = self.get_flag(t.BuilderFlag.STRICT_NANS)
        config.error_on_timing_cache_miss = self.get_flag(t.BuilderFlag.ERROR_ON_TIMING_CACHE_MISS)
        config.optimization_level = min(int(self.builder_optimization_level), 5)
        config.max_tactics, config.avg_timing = self.max_num_tactics, max(1, self.avg_timing_iterations)
        config.detailed_layer_information = self.profiling_verbosity == t.ProfilingVerbosity.DETAILED
        if t.MemoryPoolType.WORKSPACE in self._pools:
            config.workspace_limit_bytes = self._pools[t.MemoryPoolType.WORKSPACE]
        config.disabled_runners = [runner for source, runner in t._RUNNERS.items() if not self._sources >> source & 1]
        if self._cache is not None:
            config.timing_cache = self._cache._cache
        for profile in self._profiles:
            config.add_profile(profile._for(network))
        return config


class Builder:
    """Builds on the CPU, or on a GPU: `device` ("0", "auto") and `threads` are Lathe's own."""

    num_DLA_cores, max_DLA_batch_size = 0, 0  # noqa: N815
    platform_has_fast_int8 = property(lambda self: True)
    platform_has_fast_fp16 = property(lambda self: "float16" in lathe.Runtime(self._device, self._threads).fast_types)
    platform_has_tf32 = property(lambda self: False)

    def __init__(self, logger, threads=0, device="cpu"):
        self.logger, self.error_recorder, self.gpu_allocator, self.max_threads = logger, None, None, threads or 1
        self._threads, self._device = threads, device

    def create_network(self, flags=0):
        return INetworkDefinition(self.logger, flags, self)

    def create_builder_config(self):
        return IBuilderConfig()

    def create_optimization_profile(self):
        return IOptimizationProfile()

    def reset(self):
        self.error_recorder = None

    def get_plugin_registry(self):
        return registry()

    def is_network_supported(self, network, config):
        try:
            network._finish()
            return True
        except (lathe.Error, NotImplementedError) as error:
            told(self.logger, self.error_recorder, error, t.ErrorCodeTRT.UNSUPPORTED_STATE)
            return False

    def build_engine_with_config(self, network, config):
        """The engine; None where it cannot be built, and the log says why."""
        try:
            return self._build(network, config)
        except lathe.Error as error:
            told(self.logger, self.error_recorder, error)
        return None

    def build_serialized_network(self, network, config):
        engine = self.build_engine_with_config(network, config)
        return None if engine is None else engine.serialize()

    def build_serialized_network_to_stream(self, network, config, writer):
        """Gives the plan to writer.write(bytes) -> count in pieces. False where it cannot be built or the writer takes less."""
        engine = self.build_engine_with_config(network, config)
        if engine is None:
            return False
        try:
            engine._write(writer)
            return True
        except OSError as error:
            told(self.logger, self.error_recorder, str(error), t.ErrorCodeTRT.FAILED_EXECUTION)
            return False

    def _memory(self, config):
        """The allocator of a build: no more than TACTIC_DRAM where that is limited."""
        limit = config.get_memory_pool_limit(t.MemoryPoolType.TACTIC_DRAM)
        if not limit:
            return asked(self.gpu_allocator)
        source = lathe.device_allocator(self._device) if self.gpu_allocator is None else asked(self.gpu_allocator)
        return lathe.MemoryPool(source, limit)

    def _build(self, network, config):
        finished = network._finish()
        builder = lathe.Builder(self._device, threads=self._threads, log=line_of(self.logger), plugins=registry()._plugins,
                                allocator=self._memory(config))
        progress = _Monitored(config.progress_monitor) if config.progress_monitor is not None else None
        typed = network.get_flag(t.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        settings = config._for(finished, typed)
        obeyed = config.get_flag(t.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
        if not typed and (obeyed or config.get_flag(t.BuilderFlag.PREFER_PRECISION_CONSTRAINTS)):
            settings.obey_layer_precisions = obeyed
            network._demand_types(settings)
        for tensor in network._inputs + network._outputs:
            dtype, form = tensor._io_dtype, tensor._format()
            if dtype is not None or form != "chw":
                settings.set_io(tensor.name, None if dtype is None else t.lathe_name(dtype), form)
        settings.plugin_libraries = [os.fspath(library) for library in config.plugins_to_serialize]
        try:
            engine = builder.build(finished, settings, progress)
        finally:  # a cancelled build ends its phase, too
            if progress is not None:
                progress.finish()
        return ICudaEngine(engine, self.logger, network.name, config.profiling_verbosity,
                           strip=config.get_flag(t.BuilderFlag.STRIP_PLAN))
