// SPDX-License-Identifier: Apache-2.0
//
// Reductions, argmax and argmin over any axes.
//
// The input's storage is walked as kept dims times reduced dims, both merged. Three kernels: a group of
// threads per result when the innermost reduced dim is contiguous; when a kept dim is, threads side by side
// on vectors of results while the other threads of the block, and several blocks where results are few, share
// the reduced dims (a global average pool in channels-last; a second kernel adds the blocks' parts in a fixed
// order); and the same group kernel, element by element, for everything else. Accumulation is FP32. Sums of
// integers and float64, and axes that only a run knows, are exact/codegen_exact_reduce.cpp's.
#include "backend/cuda/codegen/own_tactic.h"
#include "base/error.h"
#include "base/hash.h"
#include "ir/symbol_extents.h"
#include "lathe_device_text/wide_lanes.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kReduceRunner = "Reduce";

// The walk over kept and reduced dims of the input, in the order of the result's storage.
struct ReduceWalk {
  Walk kept;     // strides[0]: input, strides[1]: result
  Walk reduced;  // strides[0]: input
  Dim results = 1, count = 1;
};

std::vector<bool> reduced_axes(const LayerQuery& query) {
  const Node& node = query.layer();
  const size_t rank = input_shape(query, 0).size();
  std::vector<bool> reduced(rank, true);
  std::optional<Ints> axes;
  if (const auto* op = std::get_if<Reduce>(&node.op)) axes = op->axes;
  if (const auto* op = std::get_if<ArgReduce>(&node.op)) axes = Ints{op->axis};
  if (!axes) return reduced;
  reduced.assign(rank, false);
  for (const int64_t a : *axes)
    reduced[static_cast<size_t>(normalize_axis(a, static_cast<int64_t>(rank), "axis"))] = true;
  return reduced;
}

bool keeps_dims(const LayerQuery& query) {
  if (const auto* op = std::get_if<Reduce>(&query.layer().op)) return op->keepdims;
  return std::get<ArgReduce>(query.layer().op).keepdims;
}

ReduceWalk walk_of(const LayerQuery& query, const TensorType& in, const TensorType& out) {
  const Shape& x = input_shape(query, 0);
  const std::vector<bool> reduced = reduced_axes(query);
  const std::vector<Dim> in_strides = storage_strides(x, in.format);
  const std::vector<Dim> out_strides = storage_strides(output_shape(query), out.format);
  ReduceWalk walk;
  std::vector<Dim> kept_extents, kept_in, kept_out, red_extents, red_in;
  for (const size_t d : storage_order(x.size(), in.format)) {
    if (reduced[d]) {
      red_extents.push_back(x[d]);
      red_in.push_back(in_strides[d]);
      walk.count = walk.count * x[d];
      continue;
    }
    size_t to = d;
    if (!keeps_dims(query))
      to = static_cast<size_t>(std::count(reduced.begin(), reduced.begin() + static_cast<int64_t>(d), false));
    kept_extents.push_back(x[d]);
    kept_in.push_back(in_strides[d]);
    kept_out.push_back(out_strides[to]);
    walk.results = walk.results * x[d];
  }
  walk.kept = merge_walk(kept_extents, {kept_in, kept_out});
  walk.reduced = merge_walk(red_extents, {red_in});
  return walk;
}

// Offsets of a linear number in a walk: defines <prefix>0.. and returns the sum for strides[which].
std::string decode(KernelBuilder& b, const Walk& walk, const std::string& prefix, const std::string& from,
                   std::string& code) {
  const size_t dims = walk.extents.size();
  if (dims == 0) return "0";
  code += "idx " + prefix + "r = " + from + ";\n";
  for (size_t d = dims; d-- > 0;) {
    const std::string e = b.number(walk.extents[d]), c = prefix + std::to_string(d);
    code += d == 0 ? "const idx " + c + " = " + prefix + "r;\n"
                   : "const idx " + c + " = " + prefix + "r % " + e + "; " + prefix + "r /= " + e + ";\n";
  }
  return prefix;
}

std::string offset(KernelBuilder& b, const Walk& walk, size_t which, const std::string& prefix) {
  std::string sum = "0";
  for (size_t d = 0; d < walk.extents.size(); ++d)
    if (!walk.strides[which][d].is_constant(0))
      sum += " + " + prefix + std::to_string(d) + " * " + b.number(walk.strides[which][d]);
  return sum;
}

// What a kind does to an element, how it combines, and what becomes of the total.
struct Kind {
  std::string op, start, map, finish;
};

Kind kind_of(ReduceKind kind, const std::string& n) {
  switch (kind) {
    case ReduceKind::Sum:
      return {"SumOp", "0.f", "e", "t"};
    case ReduceKind::Mean:
      return {"SumOp", "0.f", "e", "t / (float)" + n};
    case ReduceKind::Max:
      return {"MaxOp", "-infinity()", "e", "t"};
    case ReduceKind::Min:
      return {"MinOp", "infinity()", "e", "t"};
    case ReduceKind::Prod:
      return {"ProdOp", "1.f", "e", "t"};
    case ReduceKind::L1:
      return {"SumOp", "0.f", "fabsf(e)", "t"};
    case ReduceKind::L2:
      return {"SumOp", "0.f", "e * e", "sqrtf(t)"};
    case ReduceKind::SumSquare:
      return {"SumOp", "0.f", "e * e", "t"};
    case ReduceKind::LogSum:
      return {"SumOp", "0.f", "e", "logf(t)"};
    case ReduceKind::LogSumExp:
      return {"SumOp", "0.f", "expf(e - top)", "top + logf(t)"};
  }
  return {};
}

// `threads` (a power of two, at most 1024) share a result; several results share a block below 128.
LayerSource generate_groups(const LayerQuery& query, const Tactic& tactic, const ReduceWalk& walk,
                            int threads) {
  const ReduceKind reduce = std::get<Reduce>(query.layer().op).kind;
  const DType type = tactic.inputs[0].dtype;
  KernelBuilder b = start_kernel(query, tactic, "reduce_groups", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  const std::string in = b.input(0, type), n = b.number(walk.count), ts = std::to_string(threads);
  const Kind kind = kind_of(reduce, n);
  const int groups = std::max(1, 128 / threads);
  b.kernel().threads = threads * groups;
  b.kernel().grid[0] = ceil_div(walk.results, Dim(groups));
  b.line("const idx group = (idx)blockIdx.x * " + std::to_string(groups) + " + threadIdx.x / " + ts +
         ";\nconst int lane = threadIdx.x % " + ts + ";\nconst bool valid = group < " +
         b.number(walk.results) + ";");
  b.line(std::string(threads > 32 ? "__shared__ float buffer[32];\n" : "") +
         "const idx safe = valid ? group : 0;");
  std::string code;
  decode(b, walk.kept, "k", "safe", code);
  b.line(code + "const auto* from = " + in + " + (" + offset(b, walk.kept, 0, "k") + ");");
  const bool rows = walk.reduced.extents.size() == 1 && walk.reduced.strides[0][0].is_constant(1);
  std::vector<Dim> multiples = {walk.count};
  for (const Dim& s : walk.kept.strides[0]) multiples.push_back(s);
  const int v = rows ? vector_width(full_vector(type), multiples) : 1;
  const std::string vs = std::to_string(v);
  const auto total = [&](const Kind& k, const std::string& name) {
    b.line("float " + name + " = " + k.start + ";\nfor (idx i = lane * " + vs + "; i < " + n +
           "; i += " + ts + " * " + vs + ") {\nfloat x[" + vs + "];");
    std::string inner;
    decode(b, walk.reduced, "d", "i", inner);
    if (rows)
      b.line("load(from + i, x);");
    else
      b.line(inner + "x[0] = widen(from[" + offset(b, walk.reduced, 0, "d") + "]);");
    b.line("#pragma unroll\nfor (int j = 0; j < " + vs + "; ++j) { const float e = x[j]; " + name + " = " +
           k.op + "{}(" + k.map + ", " + name + "); }\n}");
    if (threads <= 32)
      b.line("#pragma unroll\nfor (int m = " + ts + " / 2; m > 0; m >>= 1) " + name + " = " + k.op + "{}(" +
             name + ", shuffle_xor(" + name + ", m));");
    else
      b.line(name + " = block_reduce<" + ts + ">(" + name + ", buffer, " + k.op + "{});");
  };
  if (reduce == ReduceKind::LogSumExp) {
    total({"MaxOp", "-infinity()", "e", ""}, "top");
    b.line("const bool finite = fabsf(top) < infinity();");
  }
  total(kind, "t");
  std::string finish = kind.finish;
  if (reduce == ReduceKind::LogSumExp) finish = "finite ? " + finish + " : top";
  b.line("if (valid && lane == 0) {\nfloat r[1] = {" + finish + "};\nfinish1(" +
         offset(b, walk.kept, 1, "k") + ", r);\n}");
  return {{b.finish()}};
}

// How results that lie side by side are shared out: vectors of `v`, and the reduced dims cut into `splits`
// for blocks.
struct LaneVariant {
  int v = 1, splits = 1;

  // Nothing when a tactic is none of these.
  static std::optional<LaneVariant> of(const TacticParams& params) {
    const int v = params.get_int("vector", 0);
    return v == 0 ? std::nullopt : std::optional(LaneVariant{v, params.get_int("splits")});
  }
  TacticParams params() const { return {{"splits", splits}, {"vector", v}}; }
};

std::string lane_name(const LaneVariant& variant) {
  return "cuda_reduce_lanes_s" + std::to_string(variant.splits) + "_v" + std::to_string(variant.v);
}

// Threads side by side: as many as the innermost kept dim has vectors, so that few channels leave the others
// to more rows.
int lanes_of(const LayerQuery& query, const ReduceWalk& walk, int v) {
  int lanes = 1;
  while (lanes < 32 && int64_t{lanes} * v < upper_bound(walk.kept.extents.back(), query.ranges)) lanes *= 2;
  return lanes;
}

int lane_threads(const LayerQuery& query, const ReduceWalk& walk) {
  const int64_t longest = upper_bound(walk.count, query.ranges);
  return longest >= 32 ? 256 : longest >= 8 ? 128 : 32;
}

// Adds up the parts of all splits, in their order, and applies the tail.
KernelSource lane_sums(const LayerQuery& query, const Tactic& tactic, const ReduceWalk& walk,
                       const LaneVariant& variant) {
  KernelBuilder b = start_kernel(query, tactic, "reduce_sums", tactic.outputs[0].dtype);
  const int v = std::min(variant.v, 4);
  Tail(query, tactic).emit(b, v);
  const Kind kind = kind_of(std::get<Reduce>(query.layer().op).kind, b.number(walk.count));
  const std::string vs = std::to_string(v), n = b.number(walk.results), from = b.scratch(0, "float");
  b.kernel().threads = 64;
  b.kernel().grid[0] = ceil_div(walk.results, Dim(64 * v));
  b.line("const idx result = ((idx)blockIdx.x * 64 + threadIdx.x) * " + vs + ";\nif (result >= " + n +
         ") return;\nfloat total[" + vs + "];\nload(" + from + " + result, total);");
  b.line("#pragma unroll 8\nfor (idx s = 1; s < " + std::to_string(variant.splits) + "; ++s) {\nfloat x[" +
         vs + "];\nload(" + from + " + s * " + n + " + result, x);\n#pragma unroll\nfor (int j = 0; j < " +
         vs + "; ++j) total[j] = " + kind.op + "{}(total[j], x[j]);\n}");
  std::string code;
  decode(b, walk.kept, "k", "result", code);
  b.line(code + "#pragma unroll\nfor (int j = 0; j < " + vs +
         "; ++j) { const float t = total[j]; total[j] = " + kind.finish + "; }\nfinish" + vs + "(" +
         offset(b, walk.kept, 1, "k") + ", total);");
  return b.finish();
}

// Results side by side in vectors; the other threads of the block, and the splits, share the reduced dims.
LayerSource generate_lanes(const LayerQuery& query, const Tactic& tactic, const ReduceWalk& walk,
                           const LaneVariant& variant) {
  const DType type = tactic.inputs[0].dtype;
  KernelBuilder b = start_kernel(query, tactic, "reduce_lanes", tactic.outputs[0].dtype);
  const int v = variant.v, lanes = lanes_of(query, walk, v), threads = lane_threads(query, walk),
            rows = threads / lanes;
  const bool split = variant.splits > 1;
  if (!split) Tail(query, tactic).emit(b, v);
  const std::string in = b.input(0, type), n = b.number(walk.count), vs = std::to_string(v),
                    ls = std::to_string(lanes), ss = std::to_string(variant.splits);
  const Kind kind = kind_of(std::get<Reduce>(query.layer().op).kind, n);
  b.kernel().threads = threads;
  b.kernel().grid = {ceil_div(walk.results, Dim(lanes * v)), Dim(variant.splits), 1};
  b.line("const int lane = threadIdx.x % " + ls + ", row = threadIdx.x / " + ls +
         ";\nconst idx result = ((idx)blockIdx.x * " + ls + " + lane) * " + vs +
         ";\nconst bool valid = result < " + b.number(walk.results) +
         ";\nconst idx safe = valid ? result : 0, split = blockIdx.y;\n// Long dims times many splits need "
         "64 bits.\n"
         "const idx first = (long long)" +
         n + " * split / " + ss + ", last = (long long)" + n + " * (split + 1) / " + ss + ";");
  std::string code;
  decode(b, walk.kept, "k", "safe", code);
  b.line(code + "const auto* from = " + in + " + (" + offset(b, walk.kept, 0, "k") + ");");
  const std::string each = "#pragma unroll\nfor (int j = 0; j < " + vs + "; ++j) ";
  b.line("float total[" + vs + "];\n" + each + "total[j] = " + kind.start +
         ";\n#pragma unroll 8\nfor (idx i = first + row; i < last; i += " + std::to_string(rows) +
         ") {\nfloat x[" + vs + "];");
  code.clear();
  decode(b, walk.reduced, "d", "i", code);
  b.line(code + "load(from + (" + offset(b, walk.reduced, 0, "d") + "), x);\n" + each +
         "{ const float e = x[j]; total[j] = " + kind.op + "{}(" + kind.map + ", total[j]); }\n}");
  if (rows > 1) {
    b.line("__shared__ float parts[" + vs + "][" + std::to_string(threads) + "];\n" + each +
           "parts[j][threadIdx.x] = total[j];\n__syncthreads();\n#pragma unroll\nfor (int s = " +
           std::to_string(threads / 2) + "; s >= " + ls + "; s >>= 1) {\nif (threadIdx.x < s)\n" + each +
           "{\ntotal[j] = " + kind.op +
           "{}(parts[j][threadIdx.x + s], total[j]);\nparts[j][threadIdx.x] = "
           "total[j];\n}\n__syncthreads();\n}");
    b.line("if (row > 0) return;");
  }
  b.line("if (!valid) return;");
  if (split) {
    b.line("store(" + b.scratch(0, "float") + " + split * " + b.number(walk.results) + " + result, total);");
    return {.kernels = {b.finish(), lane_sums(query, tactic, walk, variant)},
            .scratch_bytes = walk.results * Dim(4 * variant.splits)};
  }
  b.line(each + "{ const float t = total[j]; total[j] = " + kind.finish + "; }\nfinish" + vs + "(" +
         offset(b, walk.kept, 1, "k") + ", total);");
  return {{b.finish()}};
}

// Variants for results side by side, best guess first: enough blocks for the machine, at least 16 rows for
// each.
std::vector<LaneVariant> lane_variants(const LayerQuery& query, const ReduceWalk& walk, int widest,
                                       int multiprocessors) {
  const SymbolValues opt = query.opt_values();
  const int64_t results = upper_extent(walk.results, opt), count = upper_extent(walk.count, opt);
  std::vector<LaneVariant> variants;
  for (const int v : {widest, std::min(widest, 2)}) {
    const int lanes = lanes_of(query, walk, v), rows = lane_threads(query, walk) / lanes;
    const int64_t blocks = std::max<int64_t>(1, (results + lanes * v - 1) / (lanes * v));
    const int64_t splits =
        std::clamp<int64_t>(2 * multiprocessors / blocks, 1, std::max<int64_t>(1, count / (rows * 4)));
    if (splits > 1 && blocks < multiprocessors) variants.push_back({v, static_cast<int>(splits)});
    variants.push_back({v, 1});
    if (widest <= 2) break;
  }
  // Few results leave most of the machine idle with wide vectors.
  if (variants.size() == 2 && widest > 2 && results / (32 * widest) < multiprocessors)
    std::swap(variants[0], variants[1]);
  return variants;
}

// Whether results lie side by side in the input and the result, and in what vectors at most.
int lane_vector(const LayerQuery& query, const Tactic& tactic, const ReduceWalk& walk) {
  if (walk.kept.extents.empty()) return 0;
  if (!walk.kept.strides[0].back().is_constant(1) || !walk.kept.strides[1].back().is_constant(1)) return 0;
  std::vector<Dim> multiples = {walk.kept.extents.back()};
  for (size_t d = 0; d + 1 < walk.kept.extents.size(); ++d) {
    multiples.push_back(walk.kept.strides[0][d]);
    multiples.push_back(walk.kept.strides[1][d]);
  }
  for (const Dim& s : walk.reduced.strides[0]) multiples.push_back(s);
  return Tail(query, tactic).vector(vector_width(full_vector(tactic.inputs[0].dtype), multiples));
}

// The result's format when the input has `format`; nothing when no result has one.
std::optional<Format> result_format(const LayerQuery& query, const Format& format) {
  if (format.is_linear() || keeps_dims(query)) return format;
  const std::vector<bool> reduced = reduced_axes(query);
  if (reduced[0] || reduced[1]) return std::nullopt;
  return output_shape(query).size() >= 3 ? format : kLinear;
}

std::vector<Tactic> list_typed_reduce(const LayerQuery& query, const Tactic& base, const Device& device) {
  std::vector<Tactic> tactics;
  const auto groups = [&](int threads) {
    tactics.push_back(
        with_variant(base, "cuda_reduce_groups_" + std::to_string(threads), {{"threads", threads}}));
  };
  const ReduceWalk walk = walk_of(query, base.inputs[0], base.outputs[0]);
  const int64_t count = upper_bound(walk.count, query.ranges);
  const int v = lane_vector(query, base, walk);
  const bool two_passes = std::get<Reduce>(query.layer().op).kind == ReduceKind::LogSumExp;
  if (v > 0 && !two_passes) {
    for (const LaneVariant& lanes : lane_variants(query, walk, v, device.properties.multiprocessors))
      tactics.push_back(with_variant(base, lane_name(lanes), lanes.params()));
    return tactics;
  }
  if (count <= 8)
    groups(1);
  else
    groups(32);
  if (count >= 512) groups(256);
  if (count >= 4096) std::swap(tactics[0], tactics[1]);
  return tactics;
}

std::vector<Tactic> list_reduce(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Reduce>(&node.op);
  if (!op) return {};
  std::vector<Format> formats = {kLinear};
  if (input_shape(query, 0).size() >= 3) formats.insert(formats.begin(), kChannelsLast);
  std::vector<Tactic> tactics;
  for (const auto& [from, to] : stored_types(query, true))
    for (const Format& format : formats) {
      const bool unknown = !op->axes && node.has_op_input(1);
      const bool nothing = (op->axes && op->axes->empty()) || (!op->axes && op->noop_with_empty_axes);
      const std::optional<Format> out =
          unknown || nothing ? std::optional<Format>(format) : result_format(query, format);
      if (!out) continue;
      Tactic t = typed_tactic(query, kReduceRunner, "cuda_reduce", {from, format}, {to, *out});
      if (!stores_numbers(query, node.inputs[0], t.inputs[0]))
        t.support = Support::no("no kernel for " + std::string(dtype_name(from)));
      else if (unknown)
        t.support = Support::no("the axes are known only at run time");
      else if (nothing)
        t.support = Support::no("nothing is reduced");
      if (!t.support.ok) {
        tactics.push_back(std::move(t));
        continue;
      }
      const std::vector<Tactic> typed = list_typed_reduce(query, t, device);
      tactics.insert(tactics.end(), typed.begin(), typed.end());
    }
  return tactics;
}

LayerSource generate_reduce(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const ReduceWalk walk = walk_of(query, tactic.inputs[0], tactic.outputs[0]);
  if (const auto lanes = LaneVariant::of(tactic.params)) return generate_lanes(query, tactic, walk, *lanes);
  return generate_groups(query, tactic, walk, tactic.params.get_int("threads"));
}

// --- ArgReduce --------------------------------------------------------------------------------------------
constexpr std::string_view kArgRunner = "ArgReduce";

// Compared in 64 bits.
bool is_wide(DType type) {
  return type == DType::Float64 || type == DType::Bool || (is_integer(type) && dtype_info(type).bits >= 8);
}

std::vector<Tactic> list_arg(const LayerQuery& query, const Device&) {
  if (!std::holds_alternative<ArgReduce>(query.layer().op)) return {};
  const DType type = query.graph.value(query.layer().inputs[0]).dtype;
  Tactic t = typed_tactic(query, kArgRunner, "cuda_arg_reduce", {type, kLinear}, {DType::Int64, kLinear});
  if (!is_kernel_float(type) && !is_wide(type))
    t.support = Support::no("no kernel for " + std::string(dtype_name(type)));
  return {t};
}

// A warp per result; equal values are decided by their index, so the order of the lanes does not matter.
LayerSource generate_arg(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<ArgReduce>(query.layer().op);
  const ReduceWalk walk = walk_of(query, tactic.inputs[0], tactic.outputs[0]);
  KernelBuilder b = start_kernel(query, tactic, "arg_reduce", tactic.inputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  const std::string in = b.input(0, tactic.inputs[0].dtype), n = b.number(walk.count);
  b.kernel().threads = 128;
  b.kernel().grid[0] = ceil_div(walk.results, Dim(4));
  b.line("const idx group = (idx)blockIdx.x * 4 + threadIdx.x / 32;\nif (group >= " + b.number(walk.results) +
         ") return;\nconst int lane = threadIdx.x % 32;");
  std::string code;
  decode(b, walk.kept, "k", "group", code);
  b.line(code + "const auto* from = " + in + " + (" + offset(b, walk.kept, 0, "k") + ");");
  b.line("typedef decltype(widen(*from)) Number;\nNumber best = 0; int at = -1;");
  const std::string better = op.max ? ">" : "<", later = op.select_last_index ? ">" : "<";
  b.line(
      "const auto offer = [&](Number e, int i) {\nif (i < 0) return;\n"
      "const bool nan = e != e, best_nan = best != best;\n"
      "const bool wins = at < 0 || (nan && !best_nan) || (nan == best_nan && (e " +
      better + " best || ((nan || e == best) && i " + later + " at)));\nif (wins) { best = e; at = i; }\n};");
  b.line("for (int i = lane; i < " + n + "; i += 32) offer(widen(from[i * " +
         (walk.reduced.extents.empty() ? "0" : b.number(walk.reduced.strides[0][0])) + "]), i);");
  const bool wide = is_wide(tactic.inputs[0].dtype);
  if (wide) b.global(device_text::wide_lanes::kWideLanes);
  b.line("#pragma unroll\nfor (int m = 16; m > 0; m >>= 1) {\nconst Number e = " +
         std::string(wide ? "shuffle_wide" : "shuffle_xor") +
         "(best, m); const int i = shuffle_xor(at, m);\noffer(e, i);\n}");
  b.line("if (lane == 0) { long long r[1] = {at}; finish1(" + offset(b, walk.kept, 1, "k") + ", r); }");
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily reduce_family() {
  return {kReduceRunner, list_reduce, generate_reduce};
}
GeneratedFamily arg_reduce_family() {
  return {kArgRunner, list_arg, generate_arg};
}

}  // namespace lathe::cuda
