// SPDX-License-Identifier: Apache-2.0
//
// NonZero: the positions of the elements that are not zero, in row-major order (pieces.h). How many there
// are, which is the extent of the result, stays in scratch memory for the run. The input is read twice, the
// second time from L2 where it fits.
#include "backend/cuda/codegen/own_tactic.h"
#include "backend/cuda/select/pieces.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kNonzeroRunner = "NonZero";

std::vector<Tactic> list_nonzero(const LayerQuery& query, const Device&) {
  if (!std::holds_alternative<NonZero>(query.layer().op)) return {};
  Tactic t = linear_tactic(query, kNonzeroRunner, "cuda_nonzero");
  if (storage_name(t.inputs[0].dtype).empty())
    t.support = Support::no("no kernel for " + std::string(dtype_name(t.inputs[0].dtype)));
  if (!query.layer().epilogue.empty()) t.support = Support::no("NonZero applies no epilogue");
  return {t};
}

LayerSource generate_nonzero(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Shape& x = input_shape(query, 0);
  const Pieces pieces(element_count(x));
  const auto start = [&](const std::string& entry) {
    KernelBuilder b = start_kernel(query, tactic, entry, DType::Int64);
    add_counting(b);
    return b;
  };
  const auto has = [&](KernelBuilder& b) {
    return "widen(" + b.input(0, tactic.inputs[0].dtype) + "[i]) != 0";
  };
  const Dim counts = 16;  // behind the number that was found
  KernelBuilder count = start("nonzero_count"), write = start("nonzero_write");
  pieces.count(count, has(count), counts);
  std::string then = "if (set) {\nlong long* to = " + write.output(0, DType::Int64) + " + at;\n";
  Dim stride = 1;
  for (size_t d = x.size(); d-- > 0;) {
    then += "to[" + std::to_string(d) + " * (idx)total] = i / " + write.number(stride) + " % " +
            write.number(x[d]) + ";\n";
    stride = stride * x[d];
  }
  pieces.number(write, has(write), counts, then + "}", "*" + write.scratch(0, "long long") + " = total;");
  return {.kernels = {count.finish(), write.finish()},
          .scratch_bytes = counts + pieces.bytes(),
          .found = found_names(query),
          .numbered = element_count(x)};
}

}  // namespace

GeneratedFamily nonzero_family() {
  return {kNonzeroRunner, list_nonzero, generate_nonzero};
}

}  // namespace lathe::cuda
