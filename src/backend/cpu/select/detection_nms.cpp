// SPDX-License-Identifier: Apache-2.0
//
// DetectionNms in two steps of the whole team: pieces of the scores give the candidates above the threshold,
// each piece as a heap; then each item takes the best one of its pieces until it has kept enough, which is
// soon, however many candidates there are.
//
// Bytes: the scores read once, as they lie, by vectors where none of some passes the threshold; that is the
// floor: 8,400 boxes of 80 classes are 2.7 MB. Operations behind that: a step per candidate to make the
// heaps; a logarithm of them, and an overlap with each that was kept of its class, for every candidate that
// is taken.
#include <algorithm>

#include "backend/cpu/vector/own_tactic.h"
#include "base/error.h"
#include "ir/elements.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kDetectionNmsRunner = "DetectionNms";
constexpr int64_t kPieceScores = 1 << 14;
constexpr int64_t kScoresTogether = 256;  // scores that are compared by vectors first

struct DetectionCandidate {
  double score;
  int64_t box;
  int64_t label;
};

// Better ones first; of equal scores the lower box, then the lower class.
bool is_better(const DetectionCandidate& a, const DetectionCandidate& b) {
  return a.score != b.score ? a.score > b.score : a.box != b.box ? a.box < b.box : a.label < b.label;
}

struct DetectionBox {
  double x1, y1, x2, y2;

  double area(double pixel) const { return (x2 - x1 + pixel) * (y2 - y1 + pixel); }
};

double overlap(const DetectionBox& a, const DetectionBox& b, double pixel) {  // intersection over union
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1) + pixel;
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1) + pixel;
  if (!(width > 0) || !(height > 0)) return 0;
  const double both = a.area(pixel) + b.area(pixel) - width * height;
  return both > 0 ? width * height / both : 0;
}

class PreparedDetections final : public PreparedLayer {
 public:
  PreparedDetections(const DetectionNms& op, DType type, Isa isa, const Extents& boxes, const Extents& scores)
      : op_(op),
        type_(type),
        isa_(isa),
        batch_(scores[0]),
        count_(scores[1]),
        classes_(scores[2]),
        boxes_per_anchor_(boxes.size() == 4 ? boxes[2] : 1) {
    pieces_ = (count_ * classes_ + kPieceScores - 1) / kPieceScores;
    found_.resize(static_cast<size_t>(batch_ * pieces_));
    items_.resize(static_cast<size_t>(batch_));
  }
  bool meets(int n) const override { return n > 1; }
  int members(int available) const override {
    return all_or_one(0.3 * static_cast<double>(batch_ * count_ * classes_), available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    worker.share(worker.count, [&](const Worker& w) {
      const Worker::Range part = w.slice(batch_ * pieces_);
      for (int64_t i = part.begin; i < part.end; ++i) find_candidates(args, i);
    });
    worker.share(worker.count, [&](const Worker& w) {
      const Worker::Range part = w.slice(batch_);
      for (int64_t item = part.begin; item < part.end; ++item) {
        select(args, item);
        write(args, item, items_[static_cast<size_t>(item)].kept);
      }
    });
  }

 private:
  using List = std::vector<DetectionCandidate>;
  struct Item {
    List kept;
    std::vector<DetectionBox> boxes;  // of those
    std::vector<int64_t> taken;       // of each class: candidates
    std::vector<size_t> fronts;       // pieces that have some left, as a heap
  };
  static bool is_worse(const DetectionCandidate& a, const DetectionCandidate& b) { return is_better(b, a); }

  DetectionBox box_at(const LayerArgs& args, int64_t item, const DetectionCandidate& c) const {
    const int64_t which = (item * count_ + c.box) * boxes_per_anchor_ + (boxes_per_anchor_ > 1 ? c.label : 0);
    double b[4];
    load_doubles(type_, static_cast<const std::byte*>(args.inputs[0]), which * 4, 4, b);
    return {b[0], b[1], b[2], b[3]};
  }
  void find_candidates(const LayerArgs& args, int64_t piece) const {
    List& found = found_[static_cast<size_t>(piece)];
    found.clear();
    const int64_t item = piece / pieces_ * count_ * classes_, first = piece % pieces_ * kPieceScores;
    const int64_t end = std::min(first + kPieceScores, count_ * classes_);
    const auto* scores = static_cast<const std::byte*>(args.inputs[1]);
    for (int64_t i = first; i < end; i += kScoresTogether) {
      const int64_t n = std::min(kScoresTogether, end - i);
      if (is_vector_float(type_) &&
          reduce_table(isa_).row(scores + dtype_bytes(type_, item + i), stored_as(type_), n, Fold::Max) <=
              op_.score_threshold)
        continue;
      with_codec(type_, [&]<class Codec>() {
        for (int64_t j = i; j < i + n; ++j) {
          const auto score = static_cast<double>(Codec::get(scores, item + j));
          if (score > static_cast<double>(op_.score_threshold) && j % classes_ != op_.background)
            found.push_back({score, j / classes_, j % classes_});
        }
      });
    }
    std::make_heap(found.begin(), found.end(), is_worse);
  }
  // The best candidates that no better one hides.
  void select(const LayerArgs& args, int64_t number) const {
    Item& item = items_[static_cast<size_t>(number)];
    List* pieces = found_.data() + number * pieces_;
    const auto is_worse_piece = [&](size_t a, size_t b) {
      return is_worse(pieces[a].front(), pieces[b].front());
    };
    item.kept.clear();
    item.boxes.clear();
    item.taken.assign(static_cast<size_t>(classes_), 0);
    item.fronts.clear();
    for (size_t p = 0; p < static_cast<size_t>(pieces_); ++p)
      if (!pieces[p].empty()) item.fronts.push_back(p);
    std::make_heap(item.fronts.begin(), item.fronts.end(), is_worse_piece);
    while (!item.fronts.empty() && static_cast<int64_t>(item.kept.size()) < op_.keep) {
      std::pop_heap(item.fronts.begin(), item.fronts.end(), is_worse_piece);
      List& piece = pieces[item.fronts.back()];
      const DetectionCandidate best = piece.front();
      std::pop_heap(piece.begin(), piece.end(), is_worse);
      piece.pop_back();
      if (piece.empty())
        item.fronts.pop_back();
      else
        std::push_heap(item.fronts.begin(), item.fronts.end(), is_worse_piece);
      if (op_.top_k >= 0 && ++item.taken[static_cast<size_t>(best.label)] > op_.top_k) continue;
      const DetectionBox box = box_at(args, number, best);
      if (is_hidden(item, best, box)) continue;
      item.kept.push_back(best);
      item.boxes.push_back(box);
    }
  }
  bool is_hidden(const Item& item, const DetectionCandidate& candidate, const DetectionBox& box) const {
    for (size_t i = 0; i < item.kept.size(); ++i)
      if ((op_.any_class || item.kept[i].label == candidate.label) &&
          overlap(item.boxes[i], box, op_.pixels ? 1 : 0) > static_cast<double>(op_.iou_threshold))
        return true;
    return false;
  }
  void write(const LayerArgs& args, int64_t item, const List& found) const {
    const auto count = static_cast<int64_t>(found.size());
    if (args.outputs[0]) static_cast<int32_t*>(args.outputs[0])[item] = static_cast<int32_t>(count);
    auto* boxes = static_cast<std::byte*>(args.outputs[1]);
    auto* scores = static_cast<std::byte*>(args.outputs[2]);
    auto* labels = static_cast<int32_t*>(args.outputs[3]);
    const ElementWriter box_writer(type_, boxes), score_writer(type_, scores);
    for (int64_t i = 0; i < op_.keep; ++i) {
      const int64_t at = item * op_.keep + i;
      const bool is_found = i < count;
      const DetectionCandidate c =
          is_found ? found[static_cast<size_t>(i)] : DetectionCandidate{0, 0, op_.pad_class};
      const DetectionBox box = is_found ? box_at(args, item, c) : DetectionBox{0, 0, 0, 0};
      double corners[] = {box.x1, box.y1, box.x2, box.y2};
      for (double& corner : corners)
        if (op_.clip) corner = std::clamp(corner, 0.0, 1.0);
      if (boxes) box_writer.store_doubles(at * 4, 4, corners);
      if (scores) score_writer.store_doubles(at, 1, &c.score);
      if (labels) labels[at] = static_cast<int32_t>(c.label);
    }
  }

  DetectionNms op_;
  DType type_;
  Isa isa_;
  int64_t batch_, count_, classes_, boxes_per_anchor_;
  int64_t pieces_ = 0;  // of an item
  // Of the last run: their memory stays for the next.
  mutable std::vector<List> found_;
  mutable std::vector<Item> items_;
};

class DetectionKernel final : public LayerKernel {
 public:
  DetectionKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : name_(query.layer().name),
        op_(std::get<DetectionNms>(query.layer().op)),
        type_(tactic.inputs[0].dtype),
        isa_(machine.isa()) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents &boxes = context.inputs[0], &scores = context.inputs[1];
    Extents expected = {scores[0], scores[1], 4};
    if (boxes.size() == 4) expected.insert(expected.begin() + 2, boxes[2] == 1 ? 1 : scores[2]);
    if (boxes != expected)
      throw_input_error(name_ + " (DetectionNms): boxes of " + to_string(boxes) +
                        " do not fit to scores of " + to_string(scores));
    return std::make_unique<PreparedDetections>(op_, type_, isa_, boxes, scores);
  }

 private:
  std::string name_;
  DetectionNms op_;
  DType type_;
  Isa isa_;
};

std::vector<Tactic> list_detection_nms(const LayerQuery& query, const Machine& machine) {
  if (!std::holds_alternative<DetectionNms>(query.layer().op)) return {};
  Tactic t = linear_tactic(query, kDetectionNmsRunner, "detections_" + std::string(isa_suffix(machine)));
  if (!query.layer().epilogue.empty())
    t.support = Support::no("a selection applies no epilogue");
  else if (t.inputs[0].dtype != t.inputs[1].dtype)
    t.support = Support::no("boxes and scores have two types");
  return {t};
}

std::unique_ptr<LayerKernel> make_detection_nms(const LayerQuery& query, const Tactic& tactic,
                                                const Machine& machine, const PackContext&) {
  return std::make_unique<DetectionKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily detection_nms_tactics() {
  return {kDetectionNmsRunner, list_detection_nms, make_detection_nms};
}

}  // namespace lathe::cpu
