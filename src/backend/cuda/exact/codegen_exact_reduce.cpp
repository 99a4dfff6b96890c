// SPDX-License-Identifier: Apache-2.0
//
// Reductions that region/codegen_reduce.cpp has no kernel for: over axes that only the run brings, or over
// none, of float64, and of integers and bool. Sums are double, those of integers 64 bits that wrap, as in
// ops/reduce.cpp. A warp for each result, or a thread where there are few elements: each element is read once
// (twice for LogSumExp), the coordinates of each cost a division for every dim.
#include "backend/cuda/exact/exact_reduce.h"

#include "base/error.h"
#include "lathe_device_text/exact_reduce.h"
#include "lathe_device_text/wide_lanes.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kExactReduceRunner = "ExactReduce";

bool is_integer_kind(ReduceKind kind) {
  return kind == ReduceKind::Sum || kind == ReduceKind::Max || kind == ReduceKind::Min ||
         kind == ReduceKind::Prod || kind == ReduceKind::L1 || kind == ReduceKind::SumSquare;
}

// Axes come from an operand.
bool has_axes_operand(const LayerQuery& query) {
  const Node& node = query.layer();
  return !std::get<Reduce>(node.op).axes && node.has_op_input(1);
}

// Which dims go, where the model says so.
std::vector<bool> reduced_dims(const LayerQuery& query) {
  const auto& op = std::get<Reduce>(query.layer().op);
  const size_t rank = input_shape(query, 0).size();
  if (!op.axes) return std::vector<bool>(rank, !op.noop_with_empty_axes);
  std::vector<bool> reduced(rank, false);
  for (const int64_t a : *op.axes)
    reduced[static_cast<size_t>(normalize_axis(a, static_cast<int64_t>(rank), "axis"))] = true;
  return reduced;
}

// Nothing is reduced, though a sum of squares still squares.
bool is_identity(const LayerQuery& query) {
  const std::vector<bool> reduced = reduced_dims(query);
  return std::none_of(reduced.begin(), reduced.end(), [](bool goes) { return goes; });
}

bool is_listed_integer(DType type) {
  return type == DType::Int64 || type == DType::Int32;
}

std::vector<Tactic> list_exact_reduce(const LayerQuery& query, const Device&) {
  if (!std::holds_alternative<Reduce>(query.layer().op)) return {};
  std::vector<Tactic> tactics = exact_reductions(query, kExactReduceRunner);
  std::erase_if(tactics, [&](const Tactic& t) {
    return is_kernel_float(t.inputs[0].dtype) && !has_axes_operand(query) && !is_identity(query);
  });
  return tactics;
}

// What the kernel walks over: all dims of the input, or, where it is known which go, those that stay and
// those that go, merged.
struct Dims {
  std::vector<Dim> extents, strides;
  uint32_t reduced = 0;
  Dim elements = 1;  // of a result
};

Dims dims_of(const LayerQuery& query) {
  const Shape& x = input_shape(query, 0);
  const std::vector<Dim> strides = storage_strides(x, kLinear);
  if (has_axes_operand(query)) return {x, strides, 0, element_count(x)};
  const std::vector<bool> reduced = reduced_dims(query);
  Dims dims;
  for (const bool goes : {false, true}) {
    std::vector<Dim> extents, own;
    for (size_t d = 0; d < x.size(); ++d)
      if (reduced[d] == goes) {
        extents.push_back(x[d]);
        own.push_back(strides[d]);
      }
    const Walk walk = merge_walk(extents, {own});
    for (size_t d = 0; d < walk.extents.size(); ++d) {
      if (goes) {
        dims.reduced |= 1u << dims.extents.size();
        dims.elements = dims.elements * walk.extents[d];
      }
      dims.extents.push_back(walk.extents[d]);
      dims.strides.push_back(walk.strides[0][d]);
    }
  }
  return dims;
}

// What the empty maximum or minimum of a type is; other kinds begin with 0 or 1.
std::string start_of(ReduceKind kind, DType type, bool reals) {
  if (kind == ReduceKind::Prod) return "1";
  if (kind != ReduceKind::Max && kind != ReduceKind::Min) return "0";
  const bool least = kind == ReduceKind::Max;
  if (reals) return least ? "-(double)infinity()" : "(double)infinity()";
  if (type == DType::Bool) return least ? "0" : "1";
  return (least ? "kLeast<" : "kMost<") + std::string(storage_name(type)) + ">";
}

}  // namespace

std::vector<Tactic> exact_reductions(const LayerQuery& query, std::string_view runner) {
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, runner, "cuda_reduce_exact", {type, kLinear}, {type, kLinear});
    if (const Support s = computed(type); !s.ok) t.support = s;
    if (has_axes_operand(query)) {
      const Shape& axes = input_shape(query, 1);
      if (!is_listed_integer(t.inputs[1].dtype) || axes.size() != 1 || !axes[0].is_constant())
        t.support = Support::no("axes are not a list of integers whose length is known");
    }
    if (input_shape(query, 0).size() > 32) t.support = Support::no("more than 32 dims");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

LayerSource generate_exact_reduction(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<Reduce>(query.layer().op);
  const DType type = tactic.inputs[0].dtype;
  const Dims dims = dims_of(query);
  const Dim results = element_count(output_shape(query));
  const bool reals = is_float(type) || !is_integer_kind(op.kind);
  const int lanes = upper_bound(dims.elements, query.ranges) <= 8 ? 1 : 32;
  KernelBuilder b = start_kernel(query, tactic, "reduce_exact", type);
  b.set_fast_math(false);
  Tail(query, tactic).emit(b, 1);
  b.constants({{"RANK", static_cast<int64_t>(dims.extents.size())},
               {"LANES", lanes},
               {"KIND", static_cast<int64_t>(op.kind)}});
  const std::string number(reals ? "double" : compute_name(type));
  b.global("typedef " + number + " Number;\n#define kStart ((Number)" + start_of(op.kind, type, reals) + ")");
  b.global(device_text::wide_lanes::kWideLanes);
  b.global(device_text::exact_reduce::kExactReduce);
  b.kernel().threads = 128;
  b.kernel().grid[0] = ceil_div(results, Dim(128 / lanes));
  std::string extents, strides;
  for (size_t d = 0; d < dims.extents.size(); ++d) {
    extents += (d ? ", " : "") + b.number(dims.extents[d]);
    strides += (d ? ", " : "") + b.number(dims.strides[d]);
  }
  std::string reduced = std::to_string(dims.reduced) + "u";
  if (has_axes_operand(query)) {
    const int64_t count = input_shape(query, 1)[0].value();
    reduced = count > 0
                  ? "listed_dims(" + b.input(1, tactic.inputs[1].dtype) + ", " + std::to_string(count) + ")"
              : op.noop_with_empty_axes ? "0u"
                                        : std::to_string((uint64_t{1} << dims.extents.size()) - 1) + "u";
  }
  b.line("const ReducedDims dims = {{" + extents + "}, {" + strides + "}, " + reduced +
         "};\nconst idx group = ((idx)blockIdx.x * 128 + threadIdx.x) / LANES;\nconst int lane = threadIdx.x "
         "% LANES;\nconst bool valid = group < " +
         b.number(results) + " && group < dims.count(false);\nconst Number total = reduced_elements(" +
         b.input(0, type) +
         " + (valid ? dims.offset(group, false) : 0), dims, lane);\nif (valid && lane == 0) {\n" +
         std::string(compute_name(type)) + " r[1] = {" +
         (type == DType::UInt64 ? "to_integer_of<unsigned long long>(total)"
          : is_float(type)      ? "(" + std::string(compute_name(type)) + ")total"
                                : "to_integer(total)") +
         "};\nfinish1(group, r);\n}");
  return {{b.finish()}};
}

GeneratedFamily exact_reduce_family() {
  return {kExactReduceRunner, list_exact_reduce, generate_exact_reduction};
}

}  // namespace lathe::cuda
