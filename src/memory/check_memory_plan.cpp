// SPDX-License-Identifier: Apache-2.0
//
// Tokens instead of data: a layer that computes writes a fresh token into every unit of its outputs; a view
// says what it should show in terms of what its operand shows. Before a layer runs, the memory of each input
// must hold exactly what the input should show. That needs no notion of lifetimes, so it cannot share a
// mistake with the planner.
#include <limits>
#include <map>
#include <numeric>
#include <string>

#include "memory/memory_plan.h"
#include "memory/views.h"

namespace lathe {
namespace {

using Tokens = std::vector<int64_t>;

class Simulator {
 public:
  Simulator(const Graph& graph, std::span<const Choice> choices, const MemoryPlan& plan,
            const SymbolValues& values)
      : graph_(graph), choices_(choices), plan_(plan), values_(values) {
    shows_.resize(graph.value_count());
    for (size_t v = 0; v < graph.value_count(); ++v) measure(static_cast<ValueId>(v));
    for (auto& [space, tokens] : memory_) tokens.assign(static_cast<size_t>(space_bytes_[space] / unit_), -1);
  }

  void run() {
    for (const ValueId v : graph_.inputs()) write(v, "graph input");
    for (size_t v = 0; v < graph_.value_count(); ++v)
      if (plan_.placements[v].kind == Placement::Kind::Constant) write(static_cast<ValueId>(v), "constant");
    for (size_t i = 0; i < graph_.order().size(); ++i)
      step(graph_.node(graph_.order()[i]), graph_.order()[i], choices_[i]);
    for (const ValueId v : graph_.outputs()) read(v, "graph output");
  }

 private:
  // A space of addresses: -1 the arena, >= 0 a binding, -2 - v the constant v, slots from the lowest number.
  struct Region {
    int space = -1;
    int64_t begin = 0, bytes = 0;
    bool overlaps(const Region& o) const {
      return space == o.space && begin < o.begin + o.bytes && o.begin < begin + bytes;
    }
  };
  const Placement& placement(ValueId v) const { return plan_.placements[static_cast<size_t>(v)]; }
  bool stored(ValueId v) const { return placement(v).kind != Placement::Kind::None; }

  int64_t bytes(ValueId v) const {
    const Value& value = graph_.value(v);
    return storage_bytes(value.dtype, evaluate(value.shape, values_), value.format);
  }

  Region region(ValueId v) const {
    const Placement& p = placement(v);
    const int64_t size = bytes(v);
    switch (p.kind) {
      case Placement::Kind::None:
        break;
      case Placement::Kind::Arena:
        return {-1, p.offset, size};
      case Placement::Kind::Binding:
        return {p.binding, 0, size};
      case Placement::Kind::Constant:
        return {-2 - v, 0, size};
      case Placement::Kind::Grown:
        check(p.slot >= 0 && p.slot < plan_.slots, "value '" + graph_.value(v).name + "' has no slot");
        return {std::numeric_limits<int>::min() + p.slot, 0, size};
      case Placement::Kind::View: {
        check(placement(p.base).kind != Placement::Kind::View, "a view's base must not be a view");
        Region r = region(p.base);
        const int64_t offset = p.view_offset.evaluate(values_);
        check(offset >= 0 && offset + size <= r.bytes,
              "value '" + graph_.value(v).name + "' lies outside its base");
        return {r.space, r.begin + offset, size};
      }
    }
    check(false, "value '" + graph_.value(v).name + "' is used but has no place");
    return {};
  }

  // Takes part in the common unit and in the sizes of the address spaces.
  void measure(ValueId v) {
    if (!stored(v)) return;
    const Region r = region(v);
    if (r.space == -1)
      check(r.begin >= 0 && r.begin + r.bytes <= plan_.arena_bytes,
            "value '" + graph_.value(v).name + "' lies outside the arena");
    unit_ = std::gcd(std::gcd(unit_, r.begin), r.bytes);
    auto& size = space_bytes_[r.space];
    size = std::max(size, r.begin + r.bytes);
    memory_[r.space];
  }

  void write(ValueId v, const std::string& who) {
    const Region r = region(v);
    Tokens& tokens = shows_[static_cast<size_t>(v)];
    tokens.clear();
    check(r.bytes == 0 || unit_ > 0, who);
    for (int64_t u = 0; u < (r.bytes == 0 ? 0 : r.bytes / unit_); ++u) {
      tokens.push_back(next_token_);
      memory_[r.space][static_cast<size_t>(r.begin / unit_ + u)] = next_token_++;
    }
  }

  void read(ValueId v, const std::string& who) {
    const Region r = region(v);
    const Tokens& tokens = shows_[static_cast<size_t>(v)];
    for (size_t u = 0; u < tokens.size(); ++u)
      check(memory_[r.space][static_cast<size_t>(r.begin / unit_) + u] == tokens[u],
            who + " finds '" + graph_.value(v).name + "' overwritten");
  }

  void step(const Node& node, NodeId id, const Choice& choice) {
    for (const ValueId v : node.inputs)
      if (v != kNoValue && stored(v)) read(v, "layer '" + node.name + "'");
    if (choice.tactic.is_view) return show(node, id);
    for (const ValueId out : node.outputs) {
      if (out == kNoValue) continue;
      check_in_place(node, out, choice);
      write(out, "layer '" + node.name + "'");
    }
  }

  // An output over an input's memory is right only where the tactic says so, and only exactly.
  void check_in_place(const Node& node, ValueId out, const Choice& choice) {
    const Region to = region(out);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId in = node.inputs[k];
      if (in == kNoValue || !stored(in) || !region(in).overlaps(to)) continue;
      const auto& allowed = choice.tactic.in_place_inputs;
      const bool listed = std::find(allowed.begin(), allowed.end(), static_cast<int>(k)) != allowed.end();
      const bool exact = region(in).begin == to.begin && region(in).bytes == to.bytes;
      check(listed && exact && out == node.outputs[0],
            "layer '" + node.name + "' writes over its input '" + graph_.value(in).name + "'");
    }
  }

  // A view writes nothing: its outputs show parts of what its input shows, or its inputs together make what
  // its output shows.
  void show(const Node& node, NodeId id) {
    if (std::holds_alternative<Concat>(node.op)) {
      Tokens& whole = shows_[static_cast<size_t>(node.outputs[0])];
      whole.clear();
      for (const ValueId v : node.inputs) {
        const Tokens& part = shows_[static_cast<size_t>(v)];
        whole.insert(whole.end(), part.begin(), part.end());
      }
      return;
    }
    const Tokens& whole = shows_[static_cast<size_t>(node.inputs[0])];
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const ValueId out = node.outputs[k];
      if (out == kNoValue) continue;
      const int64_t size = bytes(out);
      const int64_t from = size == 0 ? 0 : view_offset_bytes(graph_, id, k).evaluate(values_) / unit_;
      const int64_t count = size == 0 ? 0 : size / unit_;
      check(from >= 0 && from + count <= static_cast<int64_t>(whole.size()),
            "view '" + node.name + "' is out of range");
      shows_[static_cast<size_t>(out)].assign(whole.begin() + from, whole.begin() + from + count);
    }
  }

  const Graph& graph_;
  std::span<const Choice> choices_;
  const MemoryPlan& plan_;
  const SymbolValues& values_;
  int64_t unit_ = 0, next_token_ = 0;
  std::map<int, int64_t> space_bytes_;
  std::map<int, Tokens> memory_;
  std::vector<Tokens> shows_;  // by value
};

}  // namespace

void check_memory_plan(const Graph& graph, std::span<const Choice> choices, const MemoryPlan& plan,
                       const SymbolValues& values) {
  Simulator(graph, choices, plan, values).run();
}

}  // namespace lathe
