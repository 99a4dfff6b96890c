// SPDX-License-Identifier: Apache-2.0
//
// NonMaxSuppression: the boxes of each batch and class are sorted by score (line_sort.h; among equal scores
// the lower index comes first), a block for each class keeps those that no better one hides (suppress.h), and
// a last kernel writes what was kept one class behind the other. How many there are stays in scratch memory
// for the run.
#include "backend/cuda/codegen/element_kernel.h"
#include "backend/cuda/codegen/line_sort.h"
#include "backend/cuda/select/suppress.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kNmsRunner = "NonMaxSuppression";
enum NmsInput : size_t { kBoxes, kScores, kMost, kOverlap, kScore };

bool has(const LayerQuery& query, size_t input) {
  const Node& node = query.layer();
  return node.has_op_input(input) &&
         !element_count(query.graph.value(node.inputs[input]).shape).is_constant(0);
}

std::vector<Tactic> list_nms(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<NonMaxSuppression>(node.op)) return {};
  Tactic t = linear_tactic(query, kNmsRunner, "cuda_nms");
  for (const size_t i : {kBoxes, kScores})
    if (!is_kernel_float(t.inputs[i].dtype))
      t.support = Support::no("no kernel for " + std::string(dtype_name(t.inputs[i].dtype)));
  for (const size_t i : {kMost, kOverlap, kScore})
    if (has(query, i) && storage_name(t.inputs[i].dtype).empty())
      t.support = Support::no("no kernel for " + std::string(dtype_name(t.inputs[i].dtype)));
  if (!node.epilogue.empty()) t.support = Support::no("NonMaxSuppression applies no epilogue");
  return {t};
}

class NmsWriter {
 public:
  NmsWriter(const LayerQuery& query, const Tactic& tactic) : query_(query), tactic_(tactic) {
    const Shape& scores = input_shape(query, kScores);
    batches_ = scores[0];
    classes_ = scores[1];
    n_ = scores[2];
    lines_ = batches_ * classes_;
    kept_most_ = n_;
    if (has(query, kMost)) {
      const Value& most = query.graph.value(query.layer().inputs[kMost]);
      if (most.is_constant())
        kept_most_ = min(n_, Dim(std::max<int64_t>(0, most.constant.to_int64s().at(0))));
    }
  }

  LayerSource write() {
    const std::vector<std::string> found = found_names(query_);
    LayerSource layer{.found = found, .numbered = max(n_, lines_ * kept_most_)};
    Dim bytes = 16;
    kept_counts_ = bytes;
    bytes = bytes + aligned_bytes(lines_ * Dim(4));
    kept_ = bytes;
    bytes = bytes + aligned_bytes(lines_ * kept_most_ * Dim(4));
    kept_boxes_ = bytes;
    bytes = bytes + aligned_bytes(lines_ * kept_most_ * Dim(16));
    const DType type = tactic_.inputs[kScores].dtype;
    LineSort sort{
        .lines = lines_, .length = n_, .most = upper_bound(n_, query_.ranges), .bits = key_bits(type)};
    sort.start = [&](const std::string& entry) {
      KernelBuilder b = start_kernel(query_, tactic_, entry, type);
      add_order_keys(b);
      return b;
    };
    // No candidate has the largest key: it is behind minus infinity.
    sort.key = [&](KernelBuilder& b) {
      const std::string score = b.input(kScores, type) + "[line * n + i]";
      candidate(b);
      return "(is_candidate(widen(" + score + ")) ? " + order_key(score, sort.bits, true) + " : (" +
             key_type(sort.bits) + ")" + (sort.bits == 16 ? "0xffffu" : "-1") + ")";
    };
    const Dim places = append_sort(layer.kernels, sort, bytes);
    layer.kernels.push_back(suppress(places));
    layer.kernels.push_back(store());
    layer.scratch_bytes = bytes;
    return layer;
  }

 private:
  // A score that is no number selects nothing.
  void candidate(KernelBuilder& b) const {
    b.line("const auto is_candidate = [&](float score) { return " +
           (has(query_, kScore)
                ? "score > (float)widen(*" + b.input(kScore, tactic_.inputs[kScore].dtype) + ")"
                : std::string("score == score")) +
           "; };");
  }

  KernelSource suppress(const Dim& places) const {
    const bool center = std::get<NonMaxSuppression>(query_.layer().op).center_point_box;
    const DType scores = tactic_.inputs[kScores].dtype;
    KernelBuilder b = start_kernel(query_, tactic_, "nms_suppress", scores);
    add_counting(b);
    add_boxes(b, center ? BoxKind::Centers : BoxKind::Corners);
    b.kernel().grid[0] = lines_;
    candidate(b);
    const std::string n = b.number(n_), most = b.number(kept_most_);
    b.line("const idx line = blockIdx.x;\nconst auto* scores = " + b.input(kScores, scores) + " + line * " +
           n + ";\nconst auto* boxes = " + b.input(kBoxes, tactic_.inputs[kBoxes].dtype) + " + line / " +
           b.number(classes_) + " * " + n + " * 4;");
    b.line("const long long wanted = " +
           (has(query_, kMost) ? "widen(*" + b.input(kMost, tactic_.inputs[kMost].dtype) + ")"
                               : std::string("0")) +
           ";\nconst float threshold = " +
           (has(query_, kOverlap) ? "widen(*" + b.input(kOverlap, tactic_.inputs[kOverlap].dtype) + ")"
                                  : std::string("0")) +
           ";");
    emit_suppression(b, {.ranks = n,
                         .place = "(int)" + b.scratch(places, "u32") + "[line * " + n + " + r]",
                         .is_candidate = "is_candidate(widen(scores[p]))",
                         .box = "box_at(boxes + (idx)p * 4)",
                         .hides = "overlap(a, b) > threshold",
                         .most = "wanted < 0 ? 0 : wanted > " + most + " ? " + most + " : wanted",
                         .kept_numbers = b.scratch(kept_, "int") + " + line * " + most,
                         .kept_boxes = "(Box*)" + b.scratch(kept_boxes_, "float") + " + line * " + most});
    b.line("__syncthreads();\nif (t == 0) " + b.scratch(kept_counts_, "u32") + "[line] = kept_count;");
    return b.finish();
  }

  KernelSource store() const {
    KernelBuilder b = start_kernel(query_, tactic_, "nms_store", DType::Int64);
    add_counting(b);
    b.kernel().grid[0] = max(lines_, Dim(1));
    const std::string lines = b.number(lines_), classes = b.number(classes_);
    b.line("__shared__ u32 buffer[256];\nconst u32* counts = " + b.scratch(kept_counts_, "u32") +
           ";\nconst idx line = blockIdx.x;\nu32 front = 0, every = 0, base, total;\nfor (idx i = "
           "threadIdx.x; i "
           "< " +
           lines +
           "; i += 256) {\nevery += counts[i];\nif (i < line) front += counts[i];\n}\n"
           "block_prefix<256>(every, buffer, total);\nblock_prefix<256>(front, buffer, base);\n"
           "if (line == 0 && threadIdx.x == 0) *" +
           b.scratch(0, "long long") + " = total;\nif (line >= " + lines +
           ") return;\nfor (u32 i = threadIdx.x; i < counts[line]; i += 256) {\nlong long* to = " +
           b.output(0, DType::Int64) + " + (idx)(base + i) * 3;\nto[0] = line / " + classes +
           ";\nto[1] = line % " + classes + ";\nto[2] = " + b.scratch(kept_, "int") + "[line * " +
           b.number(kept_most_) + " + i];\n}");
    return b.finish();
  }

  const LayerQuery& query_;
  const Tactic& tactic_;
  Dim batches_, classes_, n_, lines_, kept_most_;
  Dim kept_counts_, kept_, kept_boxes_;  // in scratch memory
};

LayerSource generate_nms(const LayerQuery& query, const Tactic& tactic, const Device&) {
  return NmsWriter(query, tactic).write();
}

}  // namespace

GeneratedFamily nms_family() {
  return {kNmsRunner, list_nms, generate_nms};
}

}  // namespace lathe::cuda
