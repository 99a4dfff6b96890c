// SPDX-License-Identifier: Apache-2.0
//
// DetectionNms: the pairs of box and class of each item are sorted by score (line_sort.h; among equal scores
// the lower box comes first, then the lower class), and one block takes them, best first (suppress.h), until
// it has kept enough. Overlaps are computed in double, as in the reference, so that thresholds decide alike.
#include "backend/cuda/codegen/element_kernel.h"
#include "backend/cuda/codegen/line_sort.h"
#include "backend/cuda/select/suppress.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kDetectionNmsRunner = "DetectionNms";
enum DetectionOutput : size_t { kDetectionCounts, kDetectionBoxes, kDetectionScores, kDetectionClasses };

std::vector<Tactic> list_detection_nms(const LayerQuery& query, const Device&) {
  const auto* op = std::get_if<DetectionNms>(&query.layer().op);
  if (!op) return {};
  Tactic t = linear_tactic(query, kDetectionNmsRunner, "cuda_detection_nms");
  if (!is_kernel_float(t.inputs[0].dtype))
    t.support = Support::no("no kernel for " + std::string(dtype_name(t.inputs[0].dtype)));
  else if (!query.layer().epilogue.empty())
    t.support = Support::no("DetectionNms applies no epilogue");
  else if (op->keep >= int64_t{1} << 20)
    t.support = Support::no("more than a million detections");
  return {t};
}

class DetectionWriter {
 public:
  DetectionWriter(const LayerQuery& query, const Tactic& tactic)
      : query_(query),
        tactic_(tactic),
        op_(std::get<DetectionNms>(query.layer().op)),
        type_(tactic.inputs[0].dtype),
        items_(input_shape(query, 1)[0]),
        classes_(input_shape(query, 1)[2]),
        pairs_(input_shape(query, 1)[1] * classes_) {}

  LayerSource write() {
    LayerSource layer{.numbered = pairs_};
    kept_boxes_ = take(items_ * Dim(32 * op_.keep));
    kept_ = take(items_ * Dim(4 * op_.keep));
    seen_ = take(items_ * classes_ * Dim(4));
    LineSort sort{.lines = items_, .length = pairs_, .most = upper_bound(pairs_, query_.ranges)};
    sort.bits = key_bits(type_);
    sort.start = [&](const std::string& entry) {
      KernelBuilder b = start_kernel(query_, tactic_, entry, type_);
      add_order_keys(b);
      return b;
    };
    // No candidate has the largest key: it is behind minus infinity.
    sort.key = [&](KernelBuilder& b) {
      const std::string score = b.input(1, type_) + "[line * n + i]";
      return "(" + is_candidate(b, "i", score) + " ? " + order_key(score, sort.bits, true) +
             (sort.bits == 16 ? " : 0xffffu)" : " : 0xffffffffu)");
    };
    const Dim places = append_sort(layer.kernels, sort, bytes_);
    layer.kernels.push_back(choose(places));
    layer.scratch_bytes = bytes_;
    return layer;
  }

 private:
  Dim take(const Dim& size) {
    const Dim at = bytes_;
    bytes_ = bytes_ + aligned_bytes(size);
    return at;
  }
  bool wants(DetectionOutput output) const {
    const auto& outputs = query_.layer().outputs;
    return output < outputs.size() && outputs[output] != kNoValue;
  }
  std::string is_candidate(KernelBuilder& b, const std::string& pair, const std::string& score) const {
    std::string text = "widen(" + score + ") > " + float_literal(op_.score_threshold);
    if (op_.background >= 0)
      text += " && " + pair + " % " + b.number(classes_) + " != " + std::to_string(op_.background);
    return "(" + text + ")";
  }

  KernelSource choose(const Dim& places) const {
    KernelBuilder b = start_kernel(query_, tactic_, "detection_nms", type_);
    add_counting(b);
    const std::string classes = b.number(classes_), n = b.number(pairs_), keep = std::to_string(op_.keep);
    b.constants({{"PIXEL", op_.pixels ? 1 : 0}});
    add_boxes(b, BoxKind::Pixels);
    b.kernel().grid[0] = items_;
    // Which of the boxes a pair has.
    const Shape& boxes = input_shape(query_, 0);
    const bool own = boxes.size() == 4 && !boxes[2].is_constant(1);
    b.line("const idx line = blockIdx.x;\nconst auto* scores = " + b.input(1, type_) + " + line * " + n +
           ";\nconst auto* boxes = " + b.input(0, type_) + " + line * " +
           b.number(product(boxes, 1, boxes.size())) +
           ";\nconst auto box_of = [&](int p) {\nconst auto* x = boxes + (idx)" +
           (own ? std::string("p") : "(p / " + classes + ")") +
           " * 4;\nreturn Box{widen(x[1]), widen(x[0]), widen(x[3]), widen(x[2])};\n};");
    Suppression s{
        .ranks = n,
        .place = "(int)" + b.scratch(places, "u32") + "[line * " + n + " + r]",
        .is_candidate = is_candidate(b, "p", "scores[p]"),
        .box = "box_of(p)",
        .hides = (op_.any_class ? std::string() : "p % " + classes + " == q % " + classes + " && ") +
                 "overlap(b, a) > (double)" + float_literal(op_.iou_threshold),
        .most = keep,
        .kept_numbers = b.scratch(kept_, "int") + " + line * " + keep,
        .kept_boxes = "(Box*)" + b.scratch(kept_boxes_, "float") + " + line * " + keep};
    if (op_.top_k >= 0) {
      // How many candidates of each class have come.
      b.line("u32* seen = " + b.scratch(seen_, "u32") + " + line * " + classes +
             ";\nfor (int c = threadIdx.x; c < " + classes + "; c += " + std::to_string(kSuppressThreads) +
             ") seen[c] = 0;\n__syncthreads();");
      s.admit = "u32 before = seen[p % " + classes +
                "];\nfor (int o = 0; o < t; ++o) before += number[o] % " + classes + " == p % " + classes +
                ";\nif (before >= " + std::to_string(op_.top_k) + ") hidden[t] = 1;";
      s.admitted = "atomic_add(&seen[p % " + classes + "], 1u);";
    }
    emit_suppression(b, s);
    store(b, keep, classes);
    return b.finish();
  }

  void store(KernelBuilder& b, const std::string& keep, const std::string& classes) const {
    b.line("__syncthreads();");
    if (wants(kDetectionCounts))
      b.line("if (t == 0) " + b.output(kDetectionCounts, DType::Int32) + "[line] = kept_count;");
    b.line("for (int i = t; i < " + keep + "; i += " + std::to_string(kSuppressThreads) +
           ") {\nconst bool set = i < kept_count;\nconst idx to = line * " + keep +
           " + i;\nconst int p = set ? kept_numbers[i] : 0;");
    if (wants(kDetectionBoxes)) {
      const std::string out = b.output(kDetectionBoxes, type_), clips = op_.clip ? "true" : "false";
      b.line("const Box box = set ? kept_boxes[i] : Box{0, 0, 0, 0};");
      const char* const corners[] = {"left", "top", "right", "bottom"};
      for (int c = 0; c < 4; ++c)
        b.line("{ float v[1] = {clip(box." + std::string(corners[c]) + ", " + clips + ")}; store(" + out +
               " + to * 4 + " + std::to_string(c) + ", v); }");
    }
    if (wants(kDetectionScores))
      b.line("{ float v[1] = {set ? widen(scores[p]) : 0.f}; store(" + b.output(kDetectionScores, type_) +
             " + to, v); }");
    if (wants(kDetectionClasses))
      b.line(b.output(kDetectionClasses, DType::Int32) + "[to] = set ? p % " + classes + " : " +
             std::to_string(op_.pad_class) + ";");
    b.line("}");
  }

  const LayerQuery& query_;
  const Tactic& tactic_;
  const DetectionNms& op_;
  DType type_;
  Dim items_, classes_, pairs_;
  Dim bytes_ = 0, kept_boxes_, kept_, seen_;  // in scratch memory
};

LayerSource generate_detection_nms(const LayerQuery& query, const Tactic& tactic, const Device&) {
  return DetectionWriter(query, tactic).write();
}

}  // namespace

GeneratedFamily detection_nms_family() {
  return {kDetectionNmsRunner, list_detection_nms, generate_detection_nms};
}

}  // namespace lathe::cuda
