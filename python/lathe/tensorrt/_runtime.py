# SPDX-License-Identifier: Apache-2.0
"""Runtime, engines and contexts. Addresses are those of host memory, and a run is done when the call returns, whatever stream it was
given."""

import lathe

from . import _types as t
from ._logger import line_of, told
from ._network import NotSupported
from ._plugins import registry


class IProfiler:
    """Derive from it: report_layer_time(layer_name, ms)."""

    def report_layer_time(self, layer_name, ms):
        raise NotImplementedError


class Profiler(IProfiler):
    """Prints the times."""

    def report_layer_time(self, layer_name, ms):
        print(f"{layer_name}: {ms}ms")


class IOutputAllocator:
    """Derive from it: reallocate_output(tensor_name, memory, size, alignment) -> address, or reallocate_output_async with a stream, and
    notify_shape(tensor_name, shape)."""

    def reallocate_output_async(self, tensor_name, memory, size, alignment, stream):
        return self.reallocate_output(tensor_name, memory, size, alignment)


class EngineInspector:
    def __init__(self, engine):
        self._engine, self.execution_context, self.error_recorder = engine, None, None

    def get_layer_information(self, layer_index, format):  # noqa: A002
        import json

        if format == t.LayerInformationFormat.ONELINE:
            layer = self._engine._engine.layers()[layer_index]
            return f"{layer['name']}, {layer['type']}, {layer['tactic']}"
        return json.dumps(json.loads(self._engine._engine.layer_json())["Layers"][layer_index], indent=1)

    def get_engine_information(self, format):  # noqa: A002
        if format == t.LayerInformationFormat.JSON:
            return self._engine._engine.layer_json()
        return "\n".join(self.get_layer_information(i, format) for i in range(self._engine.num_layers))


class ISerializationConfig:
    def __init__(self):
        self.flags = 0

    def set_flag(self, flag):
        self.flags |= 1 << flag
        return True

    def clear_flag(self, flag):
        self.flags &= ~(1 << flag)
        return True

    def get_flag(self, flag):
        return self.flags >> flag & 1 == 1


class ICudaEngine:
    """`plan`: the bytes of a file that was stripped of its weights, instead of an engine; a Refitter makes it one."""

    def __init__(self, engine, logger, name="", verbosity=t.ProfilingVerbosity.LAYER_NAMES_ONLY, plan=None, strip=False):
        self._logger, self.name, self.profiling_verbosity, self._strip = logger, name, verbosity, strip
        self.error_recorder, self._engine, self._plan, self._tensors = None, None, plan, {}
        if engine is not None:
            self._set_engine(engine)

    def _set_engine(self, engine):
        self._engine, self._plan = engine, None
        self._tensors = {x.name: (x, t.TensorIOMode.INPUT) for x in engine.inputs}
        self._tensors.update((x.name, (x, t.TensorIOMode.OUTPUT)) for x in engine.outputs)

    has_implicit_batch_dimension = property(lambda self: False)
    refittable = property(lambda self: True)
    engine_capability = property(lambda self: t.EngineCapability.STANDARD)
    hardware_compatibility_level = property(lambda self: t.HardwareCompatibilityLevel.NONE)
    tactic_sources = property(lambda self: (1 << len(t.TacticSource)) - 1)
    num_io_tensors = property(lambda self: len(self._tensors))
    num_layers = property(lambda self: len(self._engine.layer_names()))
    num_optimization_profiles = property(lambda self: self._engine.profile_count)
    num_aux_streams = streamable_weights_size = weight_streaming_scratch_memory_size = property(lambda self: 0)
    device_memory_size_v2 = device_memory_size = property(
        lambda self: max(self._engine.activation_bytes(p) for p in range(self._engine.profile_count)))

    # --- tensors
    def get_tensor_name(self, index):
        return list(self._tensors)[index]

    def __getitem__(self, index):
        return self.get_tensor_name(index)

    def __iter__(self):
        return iter(self._tensors)

    def __len__(self):
        return len(self._tensors)

    def _tensor(self, name):
        if name not in self._tensors:
            raise ValueError(f"the engine has no tensor '{name}'; it has {', '.join(self._tensors)}")
        return self._tensors[name][0]

    def get_tensor_mode(self, name):
        return self._tensors[name][1] if name in self._tensors else t.TensorIOMode.NONE

    def get_tensor_shape(self, name):
        return t.Dims(self._tensor(name).shape)

    def get_tensor_dtype(self, name):
        return t.from_lathe(self._tensor(name).dtype)

    def get_tensor_location(self, name):
        return t.TensorLocation.HOST if self.is_shape_inference_io(name) else t.TensorLocation.DEVICE

    def is_shape_inference_io(self, name):
        return self._tensor(name).is_shape_tensor

    def get_tensor_profile_shape(self, name, profile_index):
        return [t.Dims(d) for d in self._engine.shape_range(name, profile_index)]

    def get_tensor_profile_values(self, profile_index, name):
        raise NotSupported("ICudaEngine.get_tensor_profile_values")

    def get_tensor_format(self, name, profile_index=0):
        form = self._tensor(name).format
        channels_last = t.TensorFormat.DHWC if len(self._tensor(name).shape) == 5 else t.TensorFormat.HWC
        return {"chw": t.TensorFormat.LINEAR, "hwc": channels_last, "chw16": t.TensorFormat.CHW16}[form]

    def get_tensor_format_desc(self, name, profile_index=0):
        form, dtype = self.get_tensor_format(name), self.get_tensor_dtype(name).name
        if form == t.TensorFormat.LINEAR:
            return f"Row major linear {dtype} format (kLINEAR)"
        return f"Channel major {dtype} format (k{form.name})"

    def get_tensor_vectorized_dim(self, name, profile_index=0):
        return -1

    def get_tensor_bytes_per_component(self, name, profile_index=0):
        return -1

    def get_tensor_components_per_element(self, name, profile_index=0):
        return -1

    def get_aliased_input_tensor(self, name):
        return None

    def is_debug_tensor(self, name):
        return False

    def get_device_memory_size_for_profile_v2(self, profile_index):
        return self._engine.activation_bytes(profile_index)

    get_device_memory_size_for_profile = get_device_memory_size_for_profile_v2

    # --- what is made of it
    def create_execution_context(self, strategy=t.ExecutionContextAllocationStrategy.STATIC):
        if self._engine is None:
            return told(self._logger, self.error_recorder, "the engine was stripped of its weights: a Refitter gives them back",
                        t.ErrorCodeTRT.INVALID_STATE)
        if strategy == t.ExecutionContextAllocationStrategy.USER_MANAGED:
            raise NotSupported(str(strategy))
        return IExecutionContext(self)

    def create_execution_context_without_device_memory(self):
        raise NotSupported("ICudaEngine.create_execution_context_without_device_memory")

    def create_engine_inspector(self):
        return EngineInspector(self)

    def create_serialization_config(self):
        return ISerializationConfig()

    def serialize(self):
        return t.IHostMemory(self._engine.serialize_stripped() if self._strip else self._engine.serialize())

    def serialize_with_config(self, config):
        if config.get_flag(t.SerializationFlag.EXCLUDE_WEIGHTS):
            return t.IHostMemory(self._engine.serialize_stripped())
        return t.IHostMemory(self._engine.serialize())

    @property
    def weight_streaming_budget_v2(self):
        return 0

    @weight_streaming_budget_v2.setter
    def weight_streaming_budget_v2(self, budget):
        raise NotSupported("ICudaEngine.weight_streaming_budget_v2")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class IExecutionContext:
    def __init__(self, engine):
        self.engine, self.name, self.error_recorder, self.debug_sync = engine, "", None, False
        self.enqueue_emits_profile, self.nvtx_verbosity, self.persistent_cache_limit = True, engine.profiling_verbosity, 0
        self.temporary_allocator = None
        self._profiler, self._profile = None, 0
        self._begin()

    def _begin(self):
        self._context = lathe.ExecutionContext(self.engine._engine, self._profile)
        self._shapes, self._addresses, self._allocators, self._reported = {}, {}, {}, None
        for name, (info, mode) in self.engine._tensors.items():
            if mode == t.TensorIOMode.INPUT and -1 not in info.shape:
                self._shapes[name] = info.shape
                self._context.set_input_shape(name, list(info.shape))

    def _tell(self, error, code=t.ErrorCodeTRT.INVALID_ARGUMENT):
        told(self.engine._logger, self.error_recorder, error, code)
        return False

    # --- shapes
    def set_input_shape(self, name, shape):
        shape = tuple(int(d) for d in shape)
        try:
            low, _, high = self.engine._engine.shape_range(name, self._profile)
            if len(shape) != len(low) or any(not a <= d <= b for a, d, b in zip(low, shape, high)):
                return self._tell(f"input '{name}' of shape {t.Dims(shape)} is outside of its optimization profile, {t.Dims(low)} to "
                                  f"{t.Dims(high)}")
            self._context.set_input_shape(name, list(shape))
        except lathe.Error as error:
            return self._tell(error)
        self._shapes[name] = shape
        return True

    def get_tensor_shape(self, name):
        info, mode = self.engine._tensor(name), self.engine.get_tensor_mode(name)
        if mode == t.TensorIOMode.INPUT:
            return t.Dims(self._shapes.get(name, info.shape))
        if self._context.infer_shapes():
            return t.Dims(info.shape)
        return t.Dims(self._context.tensor_shape(name))

    def get_tensor_strides(self, name):
        strides, step = [], 1
        for extent in reversed(self.get_tensor_shape(name)):
            strides.insert(0, step)
            step *= max(extent, 0)
        return t.Dims(strides)

    def infer_shapes(self):
        return self._context.infer_shapes()

    @property
    def all_binding_shapes_specified(self):
        return all(n in self._shapes for n, (_, mode) in self.engine._tensors.items() if mode == t.TensorIOMode.INPUT)

    all_shape_inputs_specified = property(lambda self: True)

    def get_max_output_size(self, name):
        return self._context.tensor_bytes(name)

    # --- profiles
    active_optimization_profile = property(lambda self: self._profile)

    def set_optimization_profile_async(self, profile_index, stream_handle):
        if not 0 <= profile_index < self.engine.num_optimization_profiles:
            return self._tell(f"there is no optimization profile {profile_index}")
        self._profile = profile_index
        self._begin()
        return True

    # --- addresses
    def set_tensor_address(self, name, memory):
        self.engine._tensor(name)
        self._addresses[name] = int(memory)
        return True

    def get_tensor_address(self, name):
        return self._addresses.get(name, 0)

    set_input_tensor_address = set_output_tensor_address = set_tensor_address
    get_output_tensor_address = get_tensor_address

    def set_output_allocator(self, name, output_allocator):
        self._allocators[name] = output_allocator
        return True

    def get_output_allocator(self, name):
        return self._allocators.get(name)

    def set_input_consumed_event(self, event):
        raise NotSupported("IExecutionContext.set_input_consumed_event", "inputs are free when the call returns")

    def set_aux_streams(self, aux_streams):
        pass

    def set_device_memory(self, memory, size):
        raise NotSupported("IExecutionContext.set_device_memory")

    def set_debug_listener(self, listener):
        raise NotSupported("IExecutionContext.set_debug_listener")

    def set_tensor_debug_state(self, name, flag):
        raise NotSupported("IExecutionContext.set_tensor_debug_state")

    def update_device_memory_size_for_shapes(self):
        return self._context.device_bytes

    # --- runs
    @property
    def profiler(self):
        return self._profiler

    @profiler.setter
    def profiler(self, profiler):
        self._profiler = profiler

    def report_to_profiler(self):
        """The times of the last run, where enqueue_emits_profile is off."""
        if self._reported is None or self._profiler is None:
            return False
        for layer in self._reported:
            self._profiler.report_layer_time(layer["name"], layer["total_ms"])
        return True

    def _allocation(self, allocator):
        addresses = self._addresses  # not self, which the context would keep alive

        def allocate(name, size, shape):
            memory = allocator.reallocate_output_async(name, addresses.get(name, 0), size, 64, 0)
            addresses[name] = int(memory or 0)
            allocator.notify_shape(name, t.Dims(shape))
            return addresses[name]
        return allocate

    def _bind(self):
        for name, (_, mode) in self.engine._tensors.items():
            if name in self._allocators:
                self._context.bind_output_allocator(name, self._allocation(self._allocators[name]))
                continue
            if name not in self._addresses:
                raise lathe.InputError("its address is not set", where=f"tensor '{name}'", hint="call set_tensor_address")
            if mode == t.TensorIOMode.INPUT:
                if name not in self._shapes:
                    raise lathe.InputError("its shape is not set", where=f"input '{name}'", hint="call set_input_shape")
                self._context.bind_input_address(name, list(self._shapes[name]), self._addresses[name])
        for name, (_, mode) in self.engine._tensors.items():
            if mode == t.TensorIOMode.OUTPUT and name not in self._allocators:
                self._context.bind_output_address(name, self._addresses[name], self._context.tensor_bytes(name))

    def execute_async_v3(self, stream_handle=0):
        try:
            self._bind()
            if self._profiler is None:
                self._context.execute()
                return True
            times = lathe.Profiler()
            self._context.execute(times)
            self._reported = times.layers
            if self.enqueue_emits_profile:
                self.report_to_profiler()
            return True
        except lathe.Error as error:
            return self._tell(error, t.ErrorCodeTRT.FAILED_EXECUTION)

    def execute_v2(self, bindings):
        """Addresses in the order of the engine's tensors."""
        for name, address in zip(self.engine, bindings):
            self.set_tensor_address(name, address)
        return self.execute_async_v3()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class Runtime:
    num_DLA_cores = 0  # noqa: N815

    def __init__(self, logger, threads=0):
        self.logger, self.error_recorder, self.gpu_allocator, self.max_threads = logger, None, None, threads or 1
        self.engine_host_code_allowed, self.temporary_directory, self.tempfile_control_flags = False, None, 0
        self._threads = threads
        self._runtime = lathe.Runtime(threads=threads, log=line_of(logger), plugins=registry()._plugins)

    def deserialize_cuda_engine(self, serialized_engine):
        """From bytes, or a reader with read(count). None where it is damaged or of another device, and the log says why."""
        if hasattr(serialized_engine, "read"):
            serialized_engine = _read_all(serialized_engine)
        try:
            plan = bytes(serialized_engine)
            return ICudaEngine(self._runtime.load_bytes(plan), self.logger)
        except lathe.Error as error:
            if self._is_stripped(plan):
                return ICudaEngine(None, self.logger, plan=plan)
            told(self.logger, self.error_recorder, error, t.ErrorCodeTRT.INVALID_ARGUMENT)
            return None

    def _is_stripped(self, plan):
        try:
            return any(w["missing"] for w in lathe.Refitter(plan, threads=self._threads, log=lambda *_: None).weights)
        except lathe.Error:
            return False

    def load_runtime(self, path):
        raise NotSupported("Runtime.load_runtime")

    def get_plugin_registry(self):
        return registry()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def _read_all(reader):
    parts = []
    while part := reader.read(1 << 24):
        parts.append(bytes(part))
    return b"".join(parts)
