// SPDX-License-Identifier: Apache-2.0
//
// Max and average pooling of bytes of a grid, channels-last, any window, and means over all spatial axes. The
// largest byte is the largest number, so maxima stay bytes; sums of averages are exact.
//
// Bytes: each input once from memory, its windows from L1. The floor is that of memory.
#include "backend/cpu/quantized/window_addresses.h"
#include "backend/cpu/tile/integer_table.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kBytePoolRunner = "BytePooling";

// A Reduce is a pool whose window is the image: `kernel` is empty until extents are known.
std::optional<Pool> as_pool(const LayerQuery& query) {
  const Node& node = query.layer();
  if (const auto* pool = std::get_if<Pool>(&node.op)) return *pool;
  const auto* reduce = std::get_if<Reduce>(&node.op);
  if (!reduce || reduce->kind != ReduceKind::Mean || !reduce->keepdims || !reduce->axes) return std::nullopt;
  const size_t rank = query.graph.value(node.inputs[0]).shape.size();
  if (rank < 3) return std::nullopt;
  Ints spatial;
  for (size_t d = 2; d < rank; ++d) spatial.push_back(static_cast<int64_t>(d));
  if (*reduce->axes != spatial) return std::nullopt;
  return Pool{.kind = PoolKind::Average};
}

class PreparedBytePool final : public PreparedLayer {
 public:
  PreparedBytePool(const IntegerTable& table, const Pool& op, WindowAddresses windows, ByteGrid grid,
                   std::shared_ptr<const PreparedEpilogue> epilogue, int threads)
      : table_(table),
        is_max_(op.kind == PoolKind::Max),
        counts_padding_(op.count_include_pad),
        windows_(std::move(windows)),
        grid_(grid),
        epilogue_(std::move(epilogue)),
        threads_(threads) {
    address_bytes_ = round_up(windows_.bytes(), 64);
    const int64_t element = is_max_ ? 1 : 4;
    member_bytes_ = address_bytes_ + round_up(windows_.pixels() * windows_.channels() * element, 64);
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(member_bytes_ * threads_); }
  int members(int available) const override {
    const auto taps = static_cast<double>(windows_.lines() * windows_.pixels() * windows_.taps());
    const int64_t most = std::clamp<int64_t>(windows_.lines(), 1, available);
    return members_for(0.01 * taps * static_cast<double>(windows_.channels()), static_cast<int>(most));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const Worker::Range lines = worker.slice(windows_.lines());
    std::byte* const own = args.scratch + worker.index * member_bytes_;
    for (int64_t line = lines.begin; line < lines.end; ++line) run_line(args, line, own);
  }

 private:
  void run_line(const LayerArgs& args, int64_t line, std::byte* own) const {
    auto** const addresses = reinterpret_cast<const uint8_t**>(own);
    windows_.find(static_cast<const uint8_t*>(args.inputs[0]), line, addresses);
    const int64_t pixels = windows_.pixels(), channels = windows_.channels(), taps = windows_.taps();
    const int64_t first = line * pixels * channels;
    std::byte* values = own + address_bytes_;
    if (!epilogue_) values = static_cast<std::byte*>(args.outputs[0]) + first;
    for (int64_t p = 0; p < pixels; ++p) {
      const uint8_t* const* window = addresses + p * taps;
      if (is_max_) {
        table_.largest(window, taps, channels, reinterpret_cast<uint8_t*>(values) + p * channels);
        continue;
      }
      // Taps beside the image are the zero point, so that they add nothing.
      const auto start = static_cast<int32_t>(-static_cast<int64_t>(grid_.zero) * taps);
      const auto count = static_cast<float>(windows_.inside(line, p, counts_padding_));
      table_.average(window, taps, channels, start, count > 0 ? grid_.scale / count : 0,
                     reinterpret_cast<float*>(values) + p * channels);
    }
    if (epilogue_) epilogue_->apply(args, values, channels, first, pixels, channels, channels);
  }

  const IntegerTable& table_;
  const bool is_max_, counts_padding_;
  const WindowAddresses windows_;
  const ByteGrid grid_;
  const std::shared_ptr<const PreparedEpilogue> epilogue_;  // null: maxima are the result
  const int threads_;
  int64_t address_bytes_ = 0, member_bytes_ = 0;
};

class BytePoolKernel final : public LayerKernel {
 public:
  BytePoolKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : table_(*machine.integers),
        op_(*as_pool(query)),
        grid_(*byte_grid(query.graph.value(query.layer().inputs[0]), tactic.inputs[0])),
        epilogue_(query, tactic, machine),
        is_direct_(op_.kind == PoolKind::Max) {}

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents& x = context.inputs[0];
    const Ints whole(x.begin() + 2, x.end());
    const WindowSpec spec{op_.kernel.empty() ? whole : op_.kernel,
                          op_.strides,
                          op_.dilations,
                          op_.pads_begin,
                          op_.pads_end,
                          op_.auto_pad,
                          op_.ceil_mode};
    const auto beside = static_cast<uint8_t>(op_.kind == PoolKind::Max ? 0 : grid_.zero);
    WindowAddresses windows(x[0], x[1], resolve_window(spec, Extents(x.begin() + 2, x.end())), beside);
    return std::make_unique<PreparedBytePool>(table_, op_, std::move(windows), grid_,
                                              is_direct_ ? nullptr : epilogue_.prepare(context),
                                              context.threads);
  }

 private:
  const IntegerTable& table_;
  const Pool op_;
  const ByteGrid grid_;
  const Epilogue epilogue_;
  const bool is_direct_;
};

Support supports_byte_pool(const LayerQuery& query, const Pool& op, DType result) {
  const Node& node = query.layer();
  const Value &x = query.graph.value(node.inputs[0]), &y = query.graph.value(node.outputs[0]);
  if (op.kind == PoolKind::Lp) return Support::no("no kernel for Lp pooling of bytes");
  if (node.has_output(1)) return Support::no("indices are not produced");
  if (x.shape.size() < 3 || x.shape.size() > 5) return Support::no("not one to three spatial dims");
  if (op.kind != PoolKind::Max) return {};
  if (!node.epilogue.empty()) return Support::no("maxima of bytes have no epilogue");
  if (result != DType::UInt8 || !(x.quantization == y.quantization))
    return Support::no("the maxima do not lie on the input's grid");
  return {};
}

std::vector<Tactic> list_byte_pool(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const std::optional<Pool> op = as_pool(query);
  if (!op || !byte_grid(query.graph.value(node.inputs[0]), {DType::UInt8, {}})) return {};
  const Value& result = query.graph.value(node.outputs[0]);
  std::vector<Tactic> tactics;
  const auto add = [&](DType type) {
    Tactic t = typed_tactic(query, kBytePoolRunner, "byte_pool_" + std::string(isa_suffix(machine)),
                            {DType::UInt8, kChannelsLast}, {type, kChannelsLast});
    if (const Support s = supports_byte_pool(query, *op, type); !s.ok) t.support = s;
    if (type == DType::UInt8) t.keeps_nan = false;
    tactics.push_back(std::move(t));
  };
  if (byte_grid(result, {DType::UInt8, {}})) add(DType::UInt8);
  if (op->kind != PoolKind::Max) add(DType::Float32);
  return tactics;
}

std::unique_ptr<LayerKernel> make_byte_pool(const LayerQuery& query, const Tactic& tactic,
                                            const Machine& machine, const PackContext&) {
  return std::make_unique<BytePoolKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily byte_pool_tactics() {
  return {kBytePoolRunner, list_byte_pool, make_byte_pool};
}

}  // namespace lathe::cpu
