// SPDX-License-Identifier: Apache-2.0
//
// NonMaxSuppression: pairs of batch and class are shared out over the team; what each selects is then written
// behind what those before it selected.
//
// Operations: a sort of as many of the boxes above the score threshold as are looked at, and an overlap for
// each of them with what is selected already. Those lie by coordinate, so that a vector of them is compared
// at once (select/overlap.inc).
#include <algorithm>
#include <array>
#include <atomic>

#include "backend/cpu/select/new_symbols.h"
#include "backend/cpu/select/overlap_table.h"
#include "backend/cpu/vector/own_tactic.h"
#include "base/error.h"
#include "ir/elements.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kNonMaxSuppressionRunner = "NonMaxSuppression";
enum NmsInput : size_t { kBoxes, kScores, kMostBoxes, kOverlap, kScore, kNmsInputs };

struct NmsCandidate {
  float score;
  int32_t index;
  bool operator<(const NmsCandidate& other) const {  // comes first
    return score != other.score ? score > other.score : index < other.index;
  }
};

struct Limits {
  int64_t most = 0;
  float overlap = 0, score = 0;
  bool has_score = false;
};

class PreparedNms final : public PreparedLayer {
 public:
  std::string name;
  const NewSymbols* symbols = nullptr;
  bool center_point = false;
  std::array<DType, kNmsInputs> types{};
  std::array<bool, kNmsInputs> given{};
  int64_t batches = 0, classes = 0, count = 0, per_class = 0;
  int threads = 1;
  Isa isa = Isa::Avx2;

  int64_t tasks() const { return batches * classes; }
  int64_t room() const { return round_up(per_class, kOverlapLanes); }  // for boxes selected
  // How many each task selected, and which; per member the boxes selected and the candidates.
  int64_t box_bytes() const { return NmsBoxes::kCoordinates * room() * 4; }
  int64_t member_bytes() const {
    return box_bytes() + round_up(count * static_cast<int64_t>(sizeof(NmsCandidate)), 64);
  }
  int64_t shared_bytes() const { return round_up(8 * tasks() * (1 + per_class), 64); }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(shared_bytes() + member_bytes() * threads);
  }
  bool meets(int n) const override { return n > 1; }
  int members(int available) const override {
    return all_or_one(20 * static_cast<double>(tasks() * count), std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const Limits limits = read_limits(args);
    auto* counts = reinterpret_cast<int64_t*>(args.scratch);
    int64_t* selected = counts + tasks();
    worker.share(worker.count, [&](const Worker& w) {
      const Worker::Range part = w.slice(tasks());
      for (int64_t t = part.begin; t < part.end; ++t)
        counts[t] = select(args, t, limits, args.scratch + shared_bytes() + w.index * member_bytes(),
                           selected + t * per_class);
    });
    worker.share(worker.count, [&](const Worker& w) {
      const Worker::Range part = w.slice(tasks());
      int64_t at = 0, total = 0;
      for (int64_t t = 0; t < tasks(); ++t) (t < part.begin ? at : total) += counts[t];
      found_.store(at + total, std::memory_order_relaxed);
      auto* to = static_cast<int64_t*>(args.outputs[0]) + 3 * at;
      for (int64_t t = part.begin; t < part.end; ++t)
        for (int64_t i = 0; i < counts[t]; ++i, to += 3)
          to[0] = t / classes, to[1] = t % classes, to[2] = selected[t * per_class + i];
    });
  }
  void resolve(const LayerArgs&, SymbolValues& values) const override {
    symbols->resolve(0, {found_.load(std::memory_order_relaxed), 3}, values);
  }

 private:
  double scalar(const LayerArgs& args, NmsInput input) const {
    double value = 0;
    if (given[input])
      load_doubles(types[input], static_cast<const std::byte*>(args.inputs[input]), 0, 1, &value);
    return value;
  }
  Limits read_limits(const LayerArgs& args) const {
    Limits limits;
    limits.most =
        static_cast<int64_t>(std::clamp(scalar(args, kMostBoxes), 0.0, static_cast<double>(per_class)));
    limits.overlap = static_cast<float>(scalar(args, kOverlap));
    limits.score = static_cast<float>(scalar(args, kScore));
    limits.has_score = given[kScore];
    if (!(limits.overlap >= 0 && limits.overlap <= 1))
      throw_input_error(name + " (NonMaxSuppression): iou_threshold = " + std::to_string(limits.overlap) +
                        " is not between 0 and 1");
    return limits;
  }
  NmsBox box_at(const LayerArgs& args, int64_t index) const {
    std::array<double, 4> d{};
    load_doubles(types[kBoxes], static_cast<const std::byte*>(args.inputs[kBoxes]), index * 4, 4, d.data());
    const auto a = static_cast<float>(d[0]), b = static_cast<float>(d[1]), c = static_cast<float>(d[2]),
               e = static_cast<float>(d[3]);
    NmsBox box;
    if (center_point)  // x, y, width, height
      box = {b - e / 2, a - c / 2, b + e / 2, a + c / 2, 0};
    else  // corners, in any order
      box = {std::min(a, c), std::min(b, e), std::max(a, c), std::max(b, e), 0};
    box.area = (box.bottom - box.top) * (box.right - box.left);
    return box;
  }
  int64_t candidates(const LayerArgs& args, int64_t task, const Limits& limits, NmsCandidate* to) const {
    const auto* scores = static_cast<const std::byte*>(args.inputs[kScores]);
    return with_codec(types[kScores], [&]<class Codec>() {
      int64_t n = 0;
      for (int64_t i = 0; i < count; ++i) {
        const auto score = static_cast<float>(Codec::get(scores, task * count + i));
        // NaN compares false and goes: a score that is no number selects nothing.
        if (limits.has_score ? score > limits.score : score == score)
          to[n++] = {score, static_cast<int32_t>(i)};
      }
      return n;
    });
  }
  int64_t select(const LayerArgs& args, int64_t task, const Limits& limits, std::byte* memory,
                 int64_t* selected) const {
    const OverlapTable& table = isa == Isa::Avx2 ? overlap_table_avx2() : overlap_table_avx512();
    NmsBoxes boxes{.memory = reinterpret_cast<float*>(memory), .room = room()};
    auto* order = reinterpret_cast<NmsCandidate*>(memory + box_bytes());
    const int64_t n = candidates(args, task, limits, order);
    int64_t found = 0, sorted = 0;
    for (int64_t i = 0; i < n && found < limits.most; ++i) {
      if (i == sorted) {  // the next ones: as many as may be enough, then twice as many as before
        sorted = std::min(n, std::max(2 * limits.most, 3 * sorted));
        if (sorted < n) std::nth_element(order + i, order + sorted, order + n);
        std::sort(order + i, order + sorted);
      }
      const NmsBox box = box_at(args, task / classes * count + order[i].index);
      if (table.any(boxes, found, box, limits.overlap)) continue;
      boxes.set(found, box);
      selected[found++] = order[i].index;
    }
    return found;
  }

  mutable std::atomic<int64_t> found_{0};  // of the last run; read by resolve()
};

class NmsKernel final : public LayerKernel {
 public:
  NmsKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : name_(query.layer().name),
        isa_(machine.isa()),
        center_point_(std::get<NonMaxSuppression>(query.layer().op).center_point_box),
        tactic_(tactic),
        symbols_(query) {
    const Node& node = query.layer();
    if (node.inputs.size() <= kMostBoxes || node.inputs[kMostBoxes] == kNoValue) {
      most_ = 0;  // without a limit nothing is selected
    } else if (const Value& most = query.graph.value(node.inputs[kMostBoxes]); most.is_constant()) {
      most_ = most.constant.size() == 0 ? 0 : std::max<int64_t>(0, most.constant.to_int64s()[0]);
    }
  }
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedNms>();
    const Extents &boxes = context.inputs[kBoxes], &scores = context.inputs[kScores];
    p->name = name_;
    p->symbols = &symbols_;
    p->center_point = center_point_;
    for (size_t i = 0; i < std::min<size_t>(kNmsInputs, tactic_.inputs.size()); ++i) {
      p->types[i] = tactic_.inputs[i].dtype;
      p->given[i] = p->types[i] != DType::Undefined && element_count(context.inputs[i]) > 0;
    }
    p->batches = scores[0];
    p->classes = scores[1];
    p->count = scores[2];
    if (boxes != Extents{p->batches, p->count, 4})
      throw_input_error(name_ + " (NonMaxSuppression): boxes of " + to_string(boxes) +
                        " do not fit to scores of " + to_string(scores));
    p->per_class = std::min(p->count, most_);
    p->threads = context.threads;
    p->isa = isa_;
    return p;
  }

 private:
  std::string name_;
  Isa isa_;
  bool center_point_;
  Tactic tactic_;
  NewSymbols symbols_;
  int64_t most_ = INT64_MAX;  // of a class, as far as it is known
};

std::vector<Tactic> list_non_max_suppression(const LayerQuery& query, const Machine&) {
  if (!std::holds_alternative<NonMaxSuppression>(query.layer().op)) return {};
  Tactic t = linear_tactic(query, kNonMaxSuppressionRunner, "nms_classes");
  if (!query.layer().epilogue.empty()) t.support = Support::no("a selection applies no epilogue");
  return {t};
}

std::unique_ptr<LayerKernel> make_non_max_suppression(const LayerQuery& query, const Tactic& tactic,
                                                      const Machine& machine, const PackContext&) {
  return std::make_unique<NmsKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily non_max_suppression_tactics() {
  return {kNonMaxSuppressionRunner, list_non_max_suppression, make_non_max_suppression};
}

}  // namespace lathe::cpu
