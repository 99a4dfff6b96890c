# SPDX-License-Identifier: Apache-2.0
"""Runtime, engines and contexts. For engines of the CPU, addresses are those of host memory, and a run is done when the call returns,
whatever stream it was given. For engines of a GPU they are those of its memory, and runs are put on the stream."""

import lathe
import numpy as np

from . import _types as t
from ._interfaces import IStreamReaderV2
from ._logger import line_of, told
from ._memory import asked
from ._network import DEBUG, NotSupported
from ._plugins import registry


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


class IRuntimeConfig:
    def __init__(self):
        self._strategy = t.ExecutionContextAllocationStrategy.STATIC

    def set_execution_context_allocation_strategy(self, strategy):
        self._strategy = strategy

    def get_execution_context_allocation_strategy(self):
        return self._strategy


class ICudaEngine:
    """`plan`: the bytes of a file that was stripped of its weights, instead of an engine; a Refitter makes it one."""

    def __init__(self, engine, logger, name="", verbosity=t.ProfilingVerbosity.LAYER_NAMES_ONLY, plan=None, strip=False):
        self._logger, self.name, self._verbosity, self._strip = logger, name, verbosity, strip
        self.error_recorder, self._made, self._plan, self._io, self._debugged, self._pending = None, None, plan, {}, {}, None  # of what is made
        if engine is not None:
            self._set_engine(engine)

    def _set_pending(self, pending):
        self._pending = pending

    @property
    def _engine(self):
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._set_engine(pending.result())
        return self._made

    @property
    def _tensors(self):
        return self._io if self._engine is not None else {}

    @property
    def _marked(self):
        return self._debugged if self._engine is not None else {}

    def _set_engine(self, engine):
        self._made, self._plan = engine, None
        self.name = self.name or engine.build_info["model"]
        self._io = {x.name: (x, t.TensorIOMode.INPUT) for x in engine.inputs}
        self._io.update((x.name, (x, t.TensorIOMode.OUTPUT)) for x in engine.outputs if not x.name.startswith(DEBUG))
        self._debugged = {x.name.removeprefix(DEBUG): x for x in engine.outputs if x.name.startswith(DEBUG)}

    has_implicit_batch_dimension = property(lambda self: False)
    refittable = property(lambda self: True)
    engine_capability = property(lambda self: t.EngineCapability.STANDARD)
    hardware_compatibility_level = property(lambda self: t.HardwareCompatibilityLevel.NONE)

    @property
    def profiling_verbosity(self):
        detailed = self._engine is not None and self._engine.build_info["detailed_layer_information"]
        return t.ProfilingVerbosity.DETAILED if detailed else self._verbosity

    @property
    def tactic_sources(self):
        """Those that were switched on when the engine was built."""
        settings = self._engine.build_info["settings"].split(", ")
        return sum(1 << source for source in t.TacticSource if f"without {t._RUNNERS.get(source)}" not in settings)

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
        """The smallest, tuned-for and largest elements of a shape tensor; nothing for another input."""
        return [list(v) for v in self._engine.value_range(name, profile_index)] if self.is_shape_inference_io(name) else []

    def get_tensor_format(self, name, profile_index=0):
        form = self._tensor(name).format
        form = {"chw": "linear"}.get(form, form).upper()
        return t.TensorFormat["D" + form if form in ("HWC", "HWC8") and len(self._tensor(name).shape) == 5 else form]

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
        """Whether mark_debug() kept it. All tensors that fusion left can be listened to as well."""
        return name in self._marked

    def get_device_memory_size_for_profile_v2(self, profile_index):
        return self._engine.activation_bytes(profile_index)

    get_device_memory_size_for_profile = get_device_memory_size_for_profile_v2

    # --- what is made of it
    def create_execution_context(self, strategy=t.ExecutionContextAllocationStrategy.STATIC):
        if self._engine is None:
            return told(self._logger, self.error_recorder, "the engine was stripped of its weights: a Refitter gives them back",
                        t.ErrorCodeTRT.INVALID_STATE)
        if isinstance(strategy, IRuntimeConfig):
            strategy = strategy.get_execution_context_allocation_strategy()
        return IExecutionContext(self, strategy)

    def create_execution_context_without_device_memory(self):
        return self.create_execution_context(t.ExecutionContextAllocationStrategy.USER_MANAGED)

    def create_runtime_config(self):
        return IRuntimeConfig()

    def create_engine_inspector(self):
        return EngineInspector(self)

    def create_serialization_config(self):
        return ISerializationConfig()

    def serialize(self):
        return t.IHostMemory(self._engine.serialize_stripped() if self._strip else self._engine.serialize())

    def _write(self, writer):
        """In pieces; OSError where the writer takes less than it is given."""
        def piece(part):
            if writer.write(part) != len(part):
                raise OSError(f"the writer did not take a piece of {len(part)} bytes of the plan")

        if self._strip:
            piece(self.serialize())
        else:
            self._engine.write(piece)

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
    def __init__(self, engine, strategy=t.ExecutionContextAllocationStrategy.STATIC):
        self.engine, self.name, self.error_recorder, self.debug_sync = engine, "", None, False
        self._needs_memory, self._memory = strategy == t.ExecutionContextAllocationStrategy.USER_MANAGED, None
        self._listener, self._listened, self._listens_to_all = None, set(), False
        self.enqueue_emits_profile, self.nvtx_verbosity, self.persistent_cache_limit = True, engine.profiling_verbosity, 0
        self._temporary_allocator, self._profiler, self._profile = None, None, 0
        self._context = lathe.ExecutionContext(engine._engine, all_profiles=strategy == t.ExecutionContextAllocationStrategy.STATIC)
        self._begin()

    def _begin(self):
        self._shapes, self._addresses, self._allocators, self._reported = {}, {}, {}, None
        self._kept = {}  # memory of tensors that only a debug listener reads
        if self._memory is not None:
            self._context.set_memory(*self._memory)
        if self._temporary_allocator is not None:
            self._context.set_allocator(asked(self._temporary_allocator))
        self._apply_listener()
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
        shape, form = list(self.get_tensor_shape(name)), self.engine._tensor(name).format
        order, strides, step = list(range(len(shape))), [1] * len(shape), 1
        if form.startswith("hwc"):  # channels last, rounded up to a multiple
            order.append(order.pop(1))
            multiple = int(form[3:] or 1)
            shape[1] = -(-shape[1] // multiple) * multiple
        for axis in reversed(order):
            strides[axis] = step
            step *= max(shape[axis], 0)
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
        self._context.set_profile(profile_index)
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

    # --- memory
    def set_device_memory(self, memory, size):
        try:
            self._context.set_memory(int(memory), int(size))
        except lathe.Error as error:
            return self._tell(error)
        self._memory, self._temporary_allocator = (int(memory), int(size)), None
        return True

    def _set_device_memory(self, memory):
        self.set_device_memory(memory, self._context.memory_bytes)

    @property
    def temporary_allocator(self):
        return self._temporary_allocator

    @temporary_allocator.setter
    def temporary_allocator(self, allocator):
        self._context.set_allocator(asked(allocator))
        self._temporary_allocator, self._memory = allocator, None

    device_memory = property(lambda self: (self._memory or (0, 0))[0], _set_device_memory)

    def update_device_memory_size_for_shapes(self):
        """Of all shapes of the profile: what a context needs is planned for the largest ones."""
        return self._context.memory_bytes

    # --- debug tensors
    def set_debug_listener(self, listener):
        self._listener = listener
        self._apply_listener()
        return True

    def get_debug_listener(self):
        return self._listener

    def set_tensor_debug_state(self, name, flag):
        if name not in self.engine._marked:
            return self._tell(f"tensor '{name}' was not marked by INetworkDefinition.mark_debug")
        (self._listened.add if flag else self._listened.discard)(name)
        self._apply_listener()
        return True

    def set_all_tensors_debug_state(self, flag):
        self._listened = set(self.engine._marked) if flag else set()
        self._apply_listener()
        return True

    def set_unfused_tensors_debug_state(self, flag):
        self._listens_to_all = flag
        self._apply_listener()
        return True

    def get_unfused_tensors_debug_state(self):
        return self._listens_to_all

    def get_debug_state(self, name):
        return name in self._listened or self._listens_to_all

    def _apply_listener(self):
        is_on = self._listener is not None and (self._listened or self._listens_to_all)
        names = [] if self._listens_to_all else [DEBUG + n for n in self._listened]
        self._context.set_debug_listener(self._tell_listener(self._listener) if is_on else None, names)

    @staticmethod
    def _tell_listener(listener):
        def tell(name, values):
            if listener.process_debug_tensor(values.ctypes.data, t.TensorLocation.HOST, t.from_lathe(str(values.dtype)),
                                             t.Dims(values.shape), name.removeprefix(DEBUG), 0) is False:
                raise lathe.InputError("the debug listener ended the run", where=f"tensor '{name.removeprefix(DEBUG)}'")
        return tell

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
        if self._needs_memory and self._memory is None and self._temporary_allocator is None:
            raise lathe.InputError("it has no memory", where="a context of the strategy USER_MANAGED", hint="call set_device_memory")
        for name in self.engine._marked:  # nobody reads them but the listener
            self._context.bind_output_allocator(DEBUG + name, self._debug_memory)
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

    def _debug_memory(self, name, size, shape):
        self._kept[name] = np.empty(max(size, 1), np.uint8)
        return self._kept[name].ctypes.data

    def execute_async_v3(self, stream_handle=0):
        try:
            self._bind()
            if self._profiler is None:
                if self.engine._engine.uses_host_memory:
                    self._context.execute()
                else:
                    self._context.enqueue_cuda(int(stream_handle))
                return True
            times = lathe.Profiler()
            self._context.execute(times)
            self._reported = times.layers
            if self.enqueue_emits_profile:
                self.report_to_profiler()
            return True
        except lathe.Error as error:
            return self._tell(error)

    def execute_v2(self, bindings):
        """Addresses in the order of the engine's tensors."""
        for name, address in zip(self.engine, bindings):
            self.set_tensor_address(name, address)
        if self._profiler is not None:
            return self.execute_async_v3()
        try:
            self._bind()
            self._context.execute()
            return True
        except lathe.Error as error:
            return self._tell(error)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class Runtime:
    num_DLA_cores = 0  # noqa: N815

    def __init__(self, logger, threads=0, device="cpu"):
        self.logger, self.error_recorder, self.max_threads = logger, None, threads or 1
        self.engine_host_code_allowed, self.temporary_directory, self.tempfile_control_flags = False, None, 0
        self._threads, self._device, self._allocator = threads, device, None
        self._open()

    def _open(self):
        self._runtime = lathe.Runtime(self._device, threads=self._threads, log=line_of(self.logger), plugins=registry()._plugins,
                                      allocator=asked(self._allocator))

    @property
    def gpu_allocator(self):
        """Of all memory of the device that engines loaded from now on take, and their contexts."""
        return self._allocator

    @gpu_allocator.setter
    def gpu_allocator(self, allocator):
        self._allocator = allocator
        self._open()

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
            told(self.logger, self.error_recorder, error)
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
    parts, more = [], (0,) if isinstance(reader, IStreamReaderV2) else ()  # a stream: there is none
    while part := reader.read(1 << 24, *more):
        parts.append(bytes(part))
    return b"".join(parts)
