// SPDX-License-Identifier: Apache-2.0
//
// A layer runs in a network as a node of a CUDA graph, so it is timed as one: a graph holds the layer several
// times, over rotating sets of operands, and two events enclose its launch. Single launches would measure the
// host, which takes longer to launch a kernel than most kernels run.
//
// What the caches hold is as in a network: activations come from the layer before, so they are in the L2 when
// they fit (the sets together stay below half of it, or there is one set that does not fit anyway); the
// weights of one network mostly fit too. Data is seeded and random: a product of zeros runs 13 % faster than
// one of real data. Integers are indices or masks somewhere, so they stay where any operator accepts them.
#include "backend/cuda/run/timed_layer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "backend/cuda/device/recorded_graph.h"
#include "backend/cuda/device/stream.h"
#include "backend/no_elements.h"
#include "backend/shape_check.h"
#include "base/error.h"
#include "base/floats.h"

namespace lathe::cuda {
namespace {

constexpr size_t kPatternBytes = 1 << 20;
constexpr int kMostSets = 4;
// A replay this long makes the events' own time (about 1 us) small.
constexpr double kReplayMs = 0.15;
constexpr int kMostCopies = 64;
constexpr size_t kBatch = 4;

template <class T>
std::vector<std::byte> pattern_of(const std::function<T()>& next) {
  std::vector<std::byte> bytes(kPatternBytes);
  for (size_t i = 0; i < kPatternBytes / sizeof(T); ++i) {
    const T value = next();
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

// A megabyte of elements, repeated over operands of any size.
std::vector<std::byte> make_pattern(DType dtype, int64_t limit) {
  std::mt19937 random(2026);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  const auto index = [&] { return random() % static_cast<uint32_t>(std::max<int64_t>(1, limit)); };
  switch (dtype) {
    case DType::Float32:
      return pattern_of<float>([&] { return uniform(random); });
    case DType::Float16:
      return pattern_of<uint16_t>([&] { return float_to_fp16(uniform(random)); });
    case DType::BFloat16:
      return pattern_of<uint16_t>([&] { return float_to_bf16(uniform(random)); });
    case DType::Float8E4M3FN:
      return pattern_of<uint8_t>([&] { return float_to_fp8(uniform(random), Fp8Kind::E4M3FN); });
    case DType::Int64:
      return pattern_of<int64_t>([&] { return static_cast<int64_t>(index()); });
    case DType::Int32:
      return pattern_of<int32_t>([&] { return static_cast<int32_t>(index()); });
    case DType::Bool:
    case DType::Int8:
    case DType::UInt8:
      return pattern_of<uint8_t>([&] { return static_cast<uint8_t>(random() % 2); });
    default:
      return std::vector<std::byte>(kPatternBytes);
  }
}

class CudaTimedLayer final : public TimedLayer {
 public:
  CudaTimedLayer(const LayerQuery& query, const Tactic& tactic, std::shared_ptr<const Device> device,
                 TimingMemory& memory)
      : device_(std::move(device)), stream_(device_), start_(device_), end_(device_) {
    if (tactic.is_view) return;
    symbols_ = query.opt_values();
    blobs_ = memory.blobs(constants_key(query));
    kernel_ = make_kernel(query, tactic, *device_, PackContext{*blobs_, packing_key(tactic)});
    const ShapeContext context = shape_context(query, symbols_);
    if (has_empty_operand(query) || !fits_at_upper_bounds(query)) return;
    prepared_ = kernel_->prepare(context);
    sets_ = memory.sets(sets_key(query, tactic, context),
                        [&] { return make_sets(query, tactic, context, memory); });
    scratch_ = DeviceMemory(*device_, prepared_->scratch_bytes());
    if (prepared_->capturable().ok) record();
  }

  double run_ms() override {
    if (prepared_ == nullptr) return 0;
    device_->make_current();
    start_.record(stream_.handle());
    if (graph_)
      graph_->launch(stream_.handle());
    else
      enqueue(next_++);
    end_.record(stream_.handle());
    end_.synchronize();
    return end_.elapsed_ms(start_) / (graph_ ? copies_ : 1);
  }

 private:
  using Set = TimingMemory::Set;

  static std::string sets_key(const LayerQuery& query, const Tactic& tactic, const ShapeContext& context) {
    std::string key = query.layer().name;
    for (size_t i = 0; i < context.inputs.size(); ++i)
      key += "|" + to_string(tactic.inputs[i]) + to_string(context.inputs[i]);
    for (size_t i = 0; i < context.outputs.size(); ++i)
      key += "|" + to_string(tactic.outputs[i]) + to_string(context.outputs[i]);
    return key;
  }
  // Where the layer's constants lie: another layer, or another model, has others.
  static std::string constants_key(const LayerQuery& query) {
    std::string key = query.layer().name;
    for (const ValueId id : query.layer().inputs)
      if (id != kNoValue && query.graph.value(id).is_constant())
        key +=
            "|" + std::to_string(reinterpret_cast<uintptr_t>(query.graph.value(id).constant.bytes().data()));
    return key;
  }
  void enqueue(size_t index) {
    const Set& set = (*sets_)[index % sets_->size()];
    prepared_->enqueue({set.inputs, set.outputs, static_cast<std::byte*>(scratch_.data())}, stream_.handle());
  }

  void record() {
    // The first call loads modules and sets function attributes, which cannot be recorded.
    enqueue(0);
    // The least of a few: launches that wait for the host look longer than the kernel is, and then the graph
    // would hold so few copies that its own launch counts.
    double ms = HUGE_VAL;
    for (int batch = 0; batch < 3 && ms > 0.002; ++batch) {
      start_.record(stream_.handle());
      for (size_t i = 0; i < kBatch; ++i) enqueue(i);
      end_.record(stream_.handle());
      end_.synchronize();
      ms = std::min(ms, std::max(end_.elapsed_ms(start_) / kBatch, 1e-4));
      if (ms > kReplayMs) break;
    }
    const auto sets = static_cast<int>(sets_->size());
    copies_ = std::clamp(static_cast<int>(kReplayMs / ms), 1, kMostCopies);
    copies_ = (copies_ + sets - 1) / sets * sets;
    graph_ = std::make_unique<RecordedGraph>(*device_, stream_.handle(), [&](CUstream) {
      for (int i = 0; i < copies_; ++i) enqueue(static_cast<size_t>(i));
    });
  }

  TimingMemory::Sets make_sets(const LayerQuery& query, const Tactic& tactic, const ShapeContext& context,
                               TimingMemory& memory) {
    const Node& node = query.layer();
    int64_t bytes = 1;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (is_computed(query, i))
        bytes += storage_bytes(tactic.inputs[i].dtype, context.inputs[i], tactic.inputs[i].format);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != kNoValue)
        bytes += storage_bytes(tactic.outputs[i].dtype, context.outputs[i], tactic.outputs[i].format);
    const int64_t count = std::clamp<int64_t>(device_->properties.l2_bytes / 2 / bytes, 1, kMostSets);
    TimingMemory::Sets sets;
    for (int64_t i = 0; i < count; ++i) sets.push_back(make_set(query, tactic, context, memory));
    return sets;
  }

  static bool is_computed(const LayerQuery& query, size_t input) {
    const ValueId id = query.layer().inputs[input];
    return id != kNoValue && !query.graph.value(id).is_constant();
  }

  Set make_set(const LayerQuery& query, const Tactic& tactic, const ShapeContext& context,
               TimingMemory& memory) {
    const Node& node = query.layer();
    Set set;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      set.inputs.push_back(nullptr);
      if (node.inputs[i] == kNoValue || tactic.inputs[i].dtype == DType::Undefined) continue;
      if (is_computed(query, i)) {
        set.memory.push_back(random_operand(query, tactic.inputs[i], context, i, memory));
      } else {
        set.memory.emplace_back(*device_, query.graph.value(node.inputs[i]).constant.bytes());
      }
      set.inputs.back() = set.memory.back().data();
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      set.outputs.push_back(nullptr);
      if (node.outputs[i] == kNoValue) continue;
      const TensorType& type = tactic.outputs[i];
      const int64_t bytes = storage_bytes(type.dtype, context.outputs[i], type.format);
      set.memory.emplace_back(*device_, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
      set.outputs.back() = set.memory.back().data();
    }
    return set;
  }

  DeviceMemory random_operand(const LayerQuery& query, const TensorType& type, const ShapeContext& context,
                              size_t index, TimingMemory& patterns) {
    const auto bytes = static_cast<size_t>(
        std::max<int64_t>(storage_bytes(type.dtype, context.inputs[index], type.format), 1));
    DeviceMemory memory(*device_, bytes);
    int64_t limit = 2;
    if (const auto* gather = std::get_if<Gather>(&query.layer().op); gather != nullptr && index == 1)
      limit = context.inputs[0].at(static_cast<size_t>(gather->axis));
    const std::vector<std::byte>& pattern = patterns.pattern(type.dtype, limit);
    const Driver& driver = *device_->driver;
    const size_t first = std::min(bytes, pattern.size());
    driver.require(driver.cuMemcpyHtoDAsync(memory.address(), pattern.data(), first, stream_.handle()),
                   "writing random data");
    for (size_t done = first; done < bytes; done *= 2)
      driver.require(driver.cuMemcpyDtoDAsync(memory.address() + done, memory.address(),
                                              std::min(done, bytes - done), stream_.handle()),
                     "repeating random data");
    stream_.synchronize();  // other streams will read it
    return memory;
  }

  std::shared_ptr<const Device> device_;
  GpuStream stream_;
  GpuEvent start_, end_;
  SymbolValues symbols_;
  std::shared_ptr<BlobStore> blobs_;
  std::unique_ptr<LayerKernel> kernel_;
  std::unique_ptr<PreparedLayer> prepared_;
  std::shared_ptr<const TimingMemory::Sets> sets_;
  DeviceMemory scratch_;
  int copies_ = 1;
  size_t next_ = 0;
  std::unique_ptr<RecordedGraph> graph_;
};

}  // namespace

std::shared_ptr<const TimingMemory::Sets> TimingMemory::sets(const std::string& key,
                                                             const std::function<Sets()>& make) {
  constexpr size_t kKept = 8;  // the types and formats that a layer's tactics have
  const std::lock_guard lock(mutex_);
  for (const auto& [known, sets] : sets_)
    if (known == key) return sets;
  if (sets_.size() >= kKept) sets_.pop_back();  // before the new ones are made: they may be large
  sets_.emplace_front(key, std::make_shared<const Sets>(make()));
  return sets_.front().second;
}

const std::vector<std::byte>& TimingMemory::pattern(DType dtype, int64_t limit) {
  const std::lock_guard lock(pattern_mutex_);
  std::vector<std::byte>& bytes = patterns_[{dtype, is_float(dtype) ? 0 : limit}];
  if (bytes.empty()) bytes = make_pattern(dtype, limit);
  return bytes;
}

std::shared_ptr<BlobStore> TimingMemory::blobs(const std::string& constants) {
  const std::lock_guard lock(mutex_);
  if (blobs_ == nullptr || constants != constants_) {
    blobs_ = std::make_shared<MemoryBlobStore>();
    constants_ = constants;
  }
  return blobs_;
}

std::unique_ptr<TimedLayer> prepare_timed_layer(const LayerQuery& query, const Tactic& tactic,
                                                std::shared_ptr<const Device> device, TimingMemory& memory) {
  device->make_current();
  return std::make_unique<CudaTimedLayer>(query, tactic, std::move(device), memory);
}

}  // namespace lathe::cuda
