// SPDX-License-Identifier: Apache-2.0
//
// Timing in context: inside a network a layer finds its weights and most of its inputs outside the private
// caches, because the layers before it went through them. Hot loops understate the cost by 1.2 to 1.5 times
// and favour kernels that prefetch badly. So before each run every member of the team sweeps through a buffer
// larger than its private cache; that evicts inputs and packed weights alike (rotating input buffers would
// leave the weights hot).
//
// Then each member writes its piece of the inputs, as the layer before would have: what another core wrote
// comes at a third of the speed or less (28 GB/s against 90 where the two cores do not share a cache), so a
// split that reads what its own core wrote must show its advantage. Pieces are contiguous in storage: rows of
// channels-last tensors, channels of blocked ones.
//
// What is read once an inference, weights and the network's inputs, comes from memory as far as the
// last-level cache did not keep it (cache_residency.h): that share is flushed from all caches. (BERT-base,
// BF16, Zen 4, two threads, 128x3072 by 3072x768: 1.39 ms with the weights in L3, 1.6 in the network.
// MobileNetV2, BF16, one thread: its last product 28 us and 83.)
//
// Operands lie in huge pages, as in a network's arena: with small ones a depthwise window took up to five
// times as long, channels-last, or not, from run to run (672@14, Zen 5: 53 to 256 us).
//
// Data is seeded and random for floats. Integers are indices or masks somewhere, so they stay where any
// operator accepts them: 0 and 1, or positions inside the axis for Gather.
#include "backend/cpu/run/timed_layer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include "backend/cpu/device/cache_lines.h"
#include "backend/cpu/device/host_memory.h"
#include "backend/cpu/device/onednn.h"
#include "backend/cpu/device/onednn_call.h"
#include "backend/cpu/run/program.h"
#include "backend/no_elements.h"
#include "backend/shape_check.h"
#include "base/error.h"
#include "base/floats.h"
#include "ir/symbol_extents.h"

namespace lathe::cpu {
namespace {

constexpr double kAsGoodAsAll = 0.95;
constexpr size_t kSlab = size_t{16} << 20;

void fill_floats(DType dtype, int64_t count, std::byte* data, std::mt19937& random) {
  // A period that is no power of two; generating every element would take longer than the timing.
  constexpr size_t kPeriod = 4099;
  float values[kPeriod];
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  for (float& v : values) v = uniform(random);
  for (int64_t i = 0; i < count; ++i) {
    const float value = values[static_cast<size_t>(i) % kPeriod];
    if (dtype == DType::Float32)
      reinterpret_cast<float*>(data)[i] = value;
    else
      reinterpret_cast<uint16_t*>(data)[i] =
          dtype == DType::BFloat16 ? float_to_bf16(value) : float_to_fp16(value);
  }
}

template <class T>
void fill_below(std::byte* data, int64_t count, int64_t limit, std::mt19937& random) {
  for (int64_t i = 0; i < count; ++i)
    reinterpret_cast<T*>(data)[i] =
        static_cast<T>(random() % static_cast<uint32_t>(std::max<int64_t>(1, limit)));
}

ShapeContext context_at(const LayerQuery& query, const SymbolValues& symbols, const Machine& machine) {
  return {.symbols = symbols,
          .inputs = upper_extents(query.graph, query.layer().inputs, symbols),
          .outputs = upper_extents(query.graph, query.layer().outputs, symbols),
          .threads = machine.threads};
}

int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class CpuTimedLayer final : public TimedLayer {
 public:
  CpuTimedLayer(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                std::shared_ptr<ThreadPool> pool, CacheResidency& residency,
                std::shared_ptr<v1::Allocator> allocator)
      : pool_(std::move(pool)), machine_(machine), memory_(kSlab, kSlab, allocator) {
    if (tactic.is_view) return;
    const SingleThreadedOneDnn single;
    symbols_ = query.opt_values();
    kernel_ = make_kernel(query, tactic, machine, PackContext{blobs_, "timed"});
    const ShapeContext context = context_at(query, symbols_, machine);
    if (has_empty_operand(query) || !fits_at_upper_bounds(query)) return;
    prepared_ = with_onednn_errors([&] { return kernel_->prepare(context); });
    kept_ = residency.kept_share(query, tactic.inputs.empty() ? DType::Undefined : tactic.inputs[0].dtype,
                                 machine);
    members_ = std::clamp(prepared_->members(machine.threads), 1, machine.threads);
    make_operands(query, tactic, context);
    scratch_ = memory_.allocate(prepared_->scratch_bytes());
    // Three times the private cache evicts nearly all of it under any replacement policy. (After one and a
    // half times, weights of 0.6 MB came back 1.4 times as fast as in a network; Emerald Rapids, 2 MB.)
    sweep_bytes_ = machine.l2_bytes * 3;
    sweep_ = HostBuffer(static_cast<size_t>(sweep_bytes_ * members_), "timing a layer with cold caches",
                        std::move(allocator));
    std::memset(sweep_.data(), 1, sweep_.bytes());
  }

  double run_ms() override {
    if (prepared_ == nullptr) return 0;
    double time_ms = 0;
    std::atomic<int64_t> begin{0};
    pool_->run(members_, [&](const Worker& worker) {
      const SingleThreadedOneDnn single;
      for (const std::span<const std::byte> block : blobs_.blocks())
        forget(block.data(), static_cast<int64_t>(block.size()), worker);
      for (const Operand& result : results_) read(result, worker);
      sweep(worker.index);
      for (const Operand& operand : operands_)
        operand.is_given ? forget(operand.data, operand.bytes, worker) : own(operand, worker);
      worker.barrier();
      // The first one's clock: a member that loses its CPU here finds its work done by others.
      int64_t unset = 0;
      begin.compare_exchange_strong(unset, now_ns());
      run_pieces(*prepared_, {inputs_, outputs_, scratch_}, worker);
      if (worker.index == 0) time_ms = static_cast<double>(now_ns() - begin) * 1e-6;
    });
    return time_ms;
  }

 private:
  struct Operand {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    bool by_all = false;    // all members read all of it
    bool is_given = false;  // to the network
  };

  void make_operands(const LayerQuery& query, const Tactic& tactic, const ShapeContext& context) {
    const Node& node = query.layer();
    std::mt19937 random(2026);
    operands_at_.resize(node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const void* address = nullptr;
      if (node.inputs[i] != kNoValue && query.graph.value(node.inputs[i]).is_constant())
        address = query.graph.value(node.inputs[i]).constant.bytes().data();
      else if (node.inputs[i] != kNoValue)
        address = operands_at_[i] = random_operand(query, tactic.inputs[i], context, i, random);
      inputs_.push_back(address);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      outputs_.push_back(nullptr);
      if (node.outputs[i] == kNoValue) continue;
      const TensorType& type = tactic.outputs[i];
      const int operand = i == 0 ? residual_in_place(node, tactic) : -1;
      std::byte* data =
          operand >= 0 ? operands_at_.at(static_cast<size_t>(operand)) : allocate(type, context.outputs[i]);
      outputs_.back() = data;
      results_.push_back({data, storage_bytes(type.dtype, context.outputs[i], type.format),
                          type.format.kind == Format::Kind::ChannelBlocked});
    }
  }

  // What the memory plan will place so, wherever nobody reads the residual later: half as much is brought in
  // to be written. The residual grows by the same amount in each run; other programs could leave denormal
  // numbers behind, so their operands stay.
  static int residual_in_place(const Node& node, const Tactic& tactic) {
    const auto& allowed = tactic.in_place_inputs;
    const bool residual = !allowed.empty() && allowed[0] >= static_cast<int>(node.op_input_count()) &&
                          !std::holds_alternative<Pointwise>(node.op);
    return residual ? allowed[0] : -1;
  }

  std::byte* allocate(const TensorType& type, const Extents& extents) {
    const auto bytes = static_cast<size_t>(storage_bytes(type.dtype, extents, type.format));
    std::byte* const data = memory_.allocate(bytes);
    std::memset(data, 0, bytes);
    return data;
  }

  std::byte* random_operand(const LayerQuery& query, const TensorType& type, const ShapeContext& context,
                            size_t index, std::mt19937& random) {
    std::byte* data = allocate(type, context.inputs[index]);
    const std::vector<ValueId>& given = query.graph.inputs();
    operands_.push_back(
        {.data = data,
         .bytes = storage_bytes(type.dtype, context.inputs[index], type.format),
         .is_given = std::find(given.begin(), given.end(), query.layer().inputs[index]) != given.end()});
    const int64_t count = storage_elements(context.inputs[index], type.format);
    int64_t limit = 2;
    if (const auto* gather = std::get_if<Gather>(&query.layer().op); gather != nullptr && index == 1)
      limit = context.inputs[0].at(static_cast<size_t>(gather->axis));
    switch (type.dtype) {
      case DType::Float32:
      case DType::Float16:
      case DType::BFloat16:
        fill_floats(type.dtype, count, data, random);
        break;
      case DType::Int64:
        fill_below<int64_t>(data, count, limit, random);
        break;
      case DType::Int32:
        fill_below<int32_t>(data, count, limit, random);
        break;
      case DType::Bool:
      case DType::Int8:
      case DType::UInt8:
        fill_below<uint8_t>(data, count, 2, random);
        break;
      default:
        break;  // zeros
    }
    return data;
  }

  // What a private cache keeps of a piece that was just written or read: its end. What came before went to
  // the last-level cache, where it lies since the run before; to touch it again took longer than the layers
  // of large batches themselves.
  Worker::Range kept(Worker::Range piece) const {
    return {std::max(piece.begin, piece.end - 2 * machine_.l2_bytes), piece.end};
  }

  // Makes a piece of an input the property of this member's core, without changing it.
  void own(const Operand& operand, const Worker& worker) const {
    const auto part = kept(worker.slice(operand.bytes, 64));
    for (int64_t i = part.begin; i < part.end; i += 64) {
      volatile std::byte* byte = operand.data + i;
      *byte = *byte;
    }
  }

  void read(const Operand& result, const Worker& worker) {
    const auto part = kept(result.by_all ? Worker::Range{0, result.bytes} : worker.slice(result.bytes, 64));
    touch(result.data, part.begin, part.end);
  }

  // Takes the share that the last-level cache does not keep out of it, spread over all.
  void forget(const std::byte* data, int64_t bytes, const Worker& worker) const {
    if (kept_ >= kAsGoodAsAll) return;
    constexpr int64_t kPiece = 4096;
    const auto part = worker.slice(bytes, kPiece);
    for (int64_t i = part.begin; i < part.end; i += kPiece) {
      const double place = static_cast<double>(i / kPiece) * 0.618034;
      if (place - std::floor(place) >= kept_) flush_lines(data + i, data + std::min(i + kPiece, part.end));
    }
  }

  void sweep(int member) { touch(sweep_.begin() + sweep_bytes_ * member, 0, sweep_bytes_); }

  void touch(const std::byte* data, int64_t begin, int64_t end) {
    sums_.store(read_lines(data + begin, data + end),
                std::memory_order_relaxed);  // so that the loop is not dropped
  }

  std::shared_ptr<ThreadPool> pool_;
  const Machine machine_;
  double kept_ = 1;  // by the last-level cache, of what a network meets once an inference
  SymbolValues symbols_;
  MemoryBlobStore blobs_;
  std::unique_ptr<LayerKernel> kernel_;
  std::unique_ptr<PreparedLayer> prepared_;
  int members_ = 1;
  HostSlabs memory_;                         // operands and scratch
  std::vector<Operand> operands_, results_;  // without constants
  std::vector<std::byte*> operands_at_;      // by input
  std::byte* scratch_ = nullptr;
  HostBuffer sweep_;
  int64_t sweep_bytes_ = 0;
  std::atomic<unsigned> sums_{0};
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace

int64_t layer_scratch_bytes(const LayerQuery& query, const Tactic& tactic, const Machine& machine) {
  if (has_empty_operand(query) || !fits_at_upper_bounds(query)) return 0;
  const SingleThreadedOneDnn single;
  MemoryBlobStore blobs;
  const SymbolValues most = query.max_values();
  const auto kernel = make_kernel(query, tactic, machine, PackContext{blobs, "probed"});
  const auto prepared = with_onednn_errors([&] { return kernel->prepare(context_at(query, most, machine)); });
  return static_cast<int64_t>(prepared->scratch_bytes());
}

std::unique_ptr<TimedLayer> prepare_timed_layer(const LayerQuery& query, const Tactic& tactic,
                                                const Machine& machine, std::shared_ptr<ThreadPool> pool,
                                                CacheResidency& residency,
                                                std::shared_ptr<v1::Allocator> allocator) {
  return std::make_unique<CpuTimedLayer>(query, tactic, machine, std::move(pool), residency,
                                         std::move(allocator));
}

}  // namespace lathe::cpu
