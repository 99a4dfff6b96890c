// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/library/cudnn_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backend/cuda/device/libraries.h"
#include "base/error.h"
#include "base/json.h"

namespace lathe::cuda {
namespace {

const Cudnn& cudnn_of(const Device& device) {
  check(device.libraries->cudnn != nullptr, "cuDNN is not there");
  return *device.libraries->cudnn;
}

// cuDNN's form of the device's properties. What DeviceProperties does not hold is the same on all GPUs of
// compute capability 8 and 9, or only matters for launching.
std::string cudnn_device_json(const DeviceProperties& p) {
  Json json = Json::object();
  json["maxGridSize"] = {2147483647, 65535, 65535};
  json["maxBlockSize"] = {1024, 1024, 64};
  json["regsPerBlock"] = 65536;
  json["multiProcessorCount"] = p.multiprocessors;
  json["warpSize"] = 32;
  json["maxSharedMemoryPerBlock"] = 49152;
  json["maxSharedMemoryPerBlockOptin"] = p.shared_bytes_per_block;
  json["reservedSharedMemoryPerBlock"] = 1024;
  json["maxRegistersPerSM"] = p.registers_per_multiprocessor;
  json["maxCtasPerSM"] = 32;
  json["maxThreadsPerBlock"] = 1024;
  json["maxThreadsPerSM"] = p.threads_per_multiprocessor;
  json["pciDeviceId"] = 0;
  json["isTccDriver"] = 0;
  json["supportCoopLaunch"] = 1;
  json["totalGlobalMem"] = p.memory_bytes;
  json["smClockRateKHz"] = p.clock_khz;
  json["memClockRateKHz"] = p.memory_clock_khz;
  json["l2CacheSize"] = p.l2_bytes;
  json["cudaDeviceId"] = 0;
  json["deviceVer"] = p.major * 100 + p.minor * 10;
  json["driverVer"] = p.driver_version;
  json["deviceName"] = p.name;
  return dump_json(json, -1);
}

struct EngineNotes {
  bool compiles = false, tensor_cores = false, refused = false;
};

EngineNotes notes_of(const CudnnDescriptor& engine) {
  EngineNotes notes;
  cudnnBackendBehaviorNote_t behavior[16];
  const int64_t behaviors =
      engine.get(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, 16, behavior);
  for (int64_t i = 0; i < std::min<int64_t>(behaviors, 16); ++i)
    notes.compiles |= behavior[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
  cudnnBackendNumericalNote_t numerical[32];
  const int64_t numericals =
      engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 32, numerical);
  for (int64_t i = 0; i < std::min<int64_t>(numericals, 32); ++i) {
    const auto note = numerical[i];
    notes.tensor_cores |= note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    notes.refused |=
        note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
        note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION || note == CUDNN_NUMERICAL_NOTE_FFT ||
        (note >= CUDNN_NUMERICAL_NOTE_WINOGRAD && note <= CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
  }
  return notes;
}

CudnnConfig config_of(const Device& device, const CudnnDescriptor& config, const CudnnDescriptor& engine) {
  CudnnConfig found{.engine = -1};
  engine.get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &found.engine);
  std::vector<std::unique_ptr<CudnnDescriptor>> knobs;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int i = 0; i < CudnnConfig::kMostKnobs; ++i) {
    knobs.push_back(std::make_unique<CudnnDescriptor>(device, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
    handles.push_back(knobs.back()->handle());
  }
  const int64_t count = config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                   CudnnConfig::kMostKnobs, handles.data());
  for (int64_t i = 0; i < std::min<int64_t>(count, CudnnConfig::kMostKnobs); ++i) {
    cudnnBackendKnobType_t type{};
    int64_t value = 0;
    knobs[static_cast<size_t>(i)]->get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    knobs[static_cast<size_t>(i)]->get(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
    found.knobs.emplace_back(static_cast<int>(type), value);
  }
  return found;
}

std::string knob_key(const char* what, int index) {
  return fmt::format("knob{}_{}", index, what);
}

}  // namespace

std::string CudnnConfig::name() const {
  std::string name = fmt::format("e{}", engine);
  for (const auto& [type, value] : knobs) name += fmt::format("_k{}-{}", type, value);
  return name;
}

void CudnnConfig::add_to(TacticParams& params) const {
  params.set("engine", engine);
  params.set("knobs", static_cast<int64_t>(knobs.size()));
  for (size_t i = 0; i < knobs.size(); ++i) {
    params.set(knob_key("type", static_cast<int>(i)), knobs[i].first);
    params.set(knob_key("value", static_cast<int>(i)), knobs[i].second);
  }
}

CudnnConfig CudnnConfig::of(const TacticParams& params) {
  CudnnConfig config{.engine = params.get("engine", -1)};
  const int count = std::clamp(params.get_int("knobs", 0), 0, kMostKnobs);
  for (int i = 0; i < count; ++i)
    config.knobs.emplace_back(params.get_int(knob_key("type", i), 0), params.get(knob_key("value", i), 0));
  return config;
}

CudnnDescriptor::CudnnDescriptor(const Device& device, cudnnBackendDescriptorType_t type) : device_(device) {
  require(cudnn_of(device).cudnnBackendCreateDescriptor(type, &handle_), "making a descriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (handle_ != nullptr) cudnn_of(device_).cudnnBackendDestroyDescriptor(handle_);
}

void CudnnDescriptor::require(cudnnStatus_t status, std::string_view what) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char last[512] = "";
  cudnn_of(device_).cudnnGetLastErrorString(last, sizeof last);
  throw_input_error(
      fmt::format("cuDNN, {}: {} {}", what, cudnn_of(device_).cudnnGetErrorString(status), last));
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                          const void* values) {
  require(cudnn_of(device_).cudnnBackendSetAttribute(handle_, name, type, count, values),
          fmt::format("attribute {}", static_cast<int>(name)));
}
void CudnnDescriptor::set_ints(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
  set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}
void CudnnDescriptor::set_type(cudnnBackendAttributeName_t name, cudnnDataType_t type) {
  set(name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}
void CudnnDescriptor::set_float(cudnnBackendAttributeName_t name, float value) {
  set(name, CUDNN_TYPE_FLOAT, 1, &value);
}
void CudnnDescriptor::set_bool(cudnnBackendAttributeName_t name, bool value) {
  set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}
void CudnnDescriptor::set_descriptor(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
}
void CudnnDescriptor::finalize(std::string_view what) {
  require(cudnn_of(device_).cudnnBackendFinalize(handle_), what);
}
int64_t CudnnDescriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                             int64_t count, void* values) const {
  int64_t found = 0;
  const cudnnStatus_t status =
      cudnn_of(device_).cudnnBackendGetAttribute(handle_, name, type, count, &found, values);
  return status == CUDNN_STATUS_SUCCESS ? found : 0;
}

cudnnDataType_t cudnn_type(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return CUDNN_DATA_HALF;
    case DType::BFloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      check(dtype == DType::Float32, "cuDNN: a type that this tactic does not list");
      return CUDNN_DATA_FLOAT;
  }
}

CudnnNode CudnnGraph::tensor(int64_t id, cudnnDataType_t type, const Extents& extents,
                             const Extents& strides) {
  auto t = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t->set_ints(CUDNN_ATTR_TENSOR_UNIQUE_ID, {id});
  t->set_type(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  t->set_ints(CUDNN_ATTR_TENSOR_DIMENSIONS, extents);
  t->set_ints(CUDNN_ATTR_TENSOR_STRIDES, strides);
  t->set_ints(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {16});
  t->set_bool(CUDNN_ATTR_TENSOR_IS_VIRTUAL, id >= 1000);
  t->finalize("describing a tensor");
  kept_.push_back(t);
  return t;
}

CudnnNode CudnnGraph::virtual_tensor(cudnnDataType_t type, const Extents& extents, const Extents& strides) {
  return tensor(next_virtual_++, type, extents, strides);
}

void CudnnGraph::convolution(const CudnnNode& x, const CudnnNode& w, const CudnnNode& y,
                             const Window& window) {
  auto c = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  c->set_ints(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {static_cast<int64_t>(window.strides.size())});
  c->set_type(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  c->set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  c->set_ints(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.pads_begin);
  c->set_ints(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window.pads_end);
  c->set_ints(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilations);
  c->set_ints(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.strides);
  c->finalize("describing a convolution");
  kept_.push_back(c);
  auto op = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  op->set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, *c);
  op->set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, *x);
  op->set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, *w);
  op->set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, *y);
  op->set_float(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1);
  op->set_float(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0);
  op->finalize("a convolution");
  operations_.push_back(op);
}

void CudnnGraph::pointwise(const PointwiseMode& mode, const CudnnNode& x, const CudnnNode& b,
                           const CudnnNode& y) {
  auto p = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  p->set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode.mode);
  p->set_type(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  const auto set_double = [&](cudnnBackendAttributeName_t name, const std::optional<float>& value) {
    const double wide = value ? static_cast<double>(*value) : 0;
    if (value) p->set(name, CUDNN_TYPE_DOUBLE, 1, &wide);
  };
  set_double(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, mode.lower_clip);
  set_double(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, mode.upper_clip);
  set_double(CUDNN_ATTR_POINTWISE_ELU_ALPHA, mode.elu_alpha);
  set_double(CUDNN_ATTR_POINTWISE_SWISH_BETA, mode.swish_beta);
  p->finalize("describing a pointwise operation");
  kept_.push_back(p);
  auto op = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op->set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *p);
  op->set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x);
  op->set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
  if (b) op->set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  op->finalize("a pointwise operation");
  operations_.push_back(op);
}

void CudnnGraph::finish() {
  graph_ = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const CudnnNode& op : operations_) handles.push_back(op->handle());
  if (device_.is_present())
    graph_->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &device_.handles->cudnn);
  graph_->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              static_cast<int64_t>(handles.size()), handles.data());
  const std::lock_guard lock(device_.handles->mutex);
  graph_->finalize("an operation graph");
}

std::shared_ptr<CudnnDescriptor> CudnnGraph::device_descriptor() const {
  auto d = std::make_shared<CudnnDescriptor>(device_, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  const std::string json = cudnn_device_json(device_.properties);
  d->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(json.size()),
         json.data());
  d->finalize("describing the device");
  return d;
}

std::vector<CudnnConfig> CudnnGraph::configs(bool allow_tf32) const {
  const std::lock_guard lock(device_.handles->mutex);
  std::vector<CudnnConfig> configs;
  std::set<std::string> seen;
  const auto device = device_.is_present() ? nullptr : device_descriptor();
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    try {
      CudnnDescriptor heuristic(device_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
      heuristic.set_descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *graph_);
      heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
      if (device) heuristic.set_descriptor(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *device);
      heuristic.finalize("asking the heuristics");
      int64_t count = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
      std::vector<std::unique_ptr<CudnnDescriptor>> found;
      std::vector<cudnnBackendDescriptor_t> handles;
      for (int64_t i = 0; i < count; ++i) {
        found.push_back(std::make_unique<CudnnDescriptor>(device_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
        handles.push_back(found.back()->handle());
      }
      count =
          heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, handles.data());
      for (int64_t i = 0; i < std::min<int64_t>(count, static_cast<int64_t>(found.size())); ++i) {
        const CudnnDescriptor& config = *found[static_cast<size_t>(i)];
        CudnnDescriptor engine(device_, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        cudnnBackendDescriptor_t handle = engine.handle();
        if (config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle) != 1) continue;
        const EngineNotes notes = notes_of(engine);
        if (notes.refused || (notes.tensor_cores && !allow_tf32)) continue;
        CudnnConfig c = config_of(device_, config, engine);
        c.compiled_at_run_time = notes.compiles;
        c.tensor_cores = notes.tensor_cores;
        if (seen.insert(c.name()).second) configs.push_back(std::move(c));
      }
    } catch (const Error&) {
      // no configurations in this mode
    }
  }
  return configs;
}

std::shared_ptr<CudnnDescriptor> CudnnGraph::plan(const CudnnConfig& config) const {
  const std::lock_guard lock(device_.handles->mutex);
  CudnnDescriptor engine(device_, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set_descriptor(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, *graph_);
  engine.set_ints(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, {config.engine});
  const auto device = device_.is_present() ? nullptr : device_descriptor();
  if (device) engine.set_descriptor(CUDNN_ATTR_ENGINE_DEVICEPROP, *device);
  engine.finalize("engine " + config.name());
  std::vector<std::unique_ptr<CudnnDescriptor>> knobs;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const auto& [type, value] : config.knobs) {
    const auto knob_type = static_cast<cudnnBackendKnobType_t>(type);
    knobs.push_back(std::make_unique<CudnnDescriptor>(device_, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
    knobs.back()->set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &knob_type);
    knobs.back()->set_ints(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, {value});
    knobs.back()->finalize("a knob of " + config.name());
    handles.push_back(knobs.back()->handle());
  }
  CudnnDescriptor engine_config(device_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  engine_config.set_descriptor(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!handles.empty())
    engine_config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                      static_cast<int64_t>(handles.size()), handles.data());
  engine_config.finalize("configuration " + config.name());
  auto plan = std::make_shared<CudnnDescriptor>(device_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (device)
    plan->set_descriptor(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *device);
  else
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &device_.handles->cudnn);
  plan->set_descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine_config);
  plan->finalize("plan " + config.name());
  return plan;
}

size_t CudnnGraph::scratch_bytes(const CudnnDescriptor& plan) {
  int64_t bytes = 0;
  plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  return static_cast<size_t>(bytes);
}

void enqueue_cudnn_plan(const Device& device, const CudnnDescriptor& plan, const std::vector<int64_t>& ids,
                        const std::vector<const void*>& addresses, void* scratch, CUstream stream) {
  const Cudnn& cudnn = cudnn_of(device);
  CudnnDescriptor pack(device, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, static_cast<int64_t>(ids.size()),
           ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(addresses.size()),
           addresses.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
  pack.finalize("the operands of a plan");
  const std::lock_guard lock(device.handles->mutex);
  cudnnStatus_t status = cudnn.cudnnSetStream(device.handles->cudnn, reinterpret_cast<cudaStream_t>(stream));
  if (status == CUDNN_STATUS_SUCCESS)
    status = cudnn.cudnnBackendExecute(device.handles->cudnn, plan.handle(), pack.handle());
  if (status == CUDNN_STATUS_SUCCESS) return;
  char last[512] = "";
  cudnn.cudnnGetLastErrorString(last, sizeof last);
  throw_system_error(fmt::format("cuDNN, running a plan: {} {}", cudnn.cudnnGetErrorString(status), last));
}

}  // namespace lathe::cuda
