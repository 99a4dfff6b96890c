// SPDX-License-Identifier: Apache-2.0
//
// The graph is inferred again, so shapes and types are those that its operators give. Where values lie is
// derived again from graph and choices (memory/views.h); of the file's placements only the arena's offsets
// are news, and these are checked against lifetimes.
#include "plan/check_variant.h"

#include <algorithm>

#include "backend/body_nodes.h"
#include "backend/open_size.h"
#include "backend/view.h"
#include "base/error.h"
#include "ir/dim_clamps.h"
#include "memory/arena.h"
#include "memory/lifetimes.h"
#include "memory/slots.h"
#include "ops/build.h"
#include "ops/op_def.h"

namespace lathe {
namespace {

void check_ranges(const PlanVariant& v) {
  for (const auto& [symbol, r] : v.ranges)
    require(0 <= r.min && r.min <= r.opt && r.opt <= r.max, "the range of '" + symbol + "' is out of order");
}

// Every symbol has a range, and bytes can be counted.
class ExtentChecker {
 public:
  ExtentChecker(const Graph& graph, const SymbolRanges& ranges) : graph_(graph), ranges_(ranges) {}

  void run() const {
    for (const ValueId v : graph_.inputs()) check(v);
    for (const NodeId id : graph_.order()) {
      for (const ValueId v : graph_.node(id).inputs) check(v);
      for (const ValueId v : graph_.node(id).outputs) check(v);
    }
  }

 private:
  void check(ValueId id) const {
    if (id == kNoValue) return;
    const Value& value = graph_.value(id);
    const bool is_open = has_open_size(value, ranges_);  // its size is counted when a run knows it
    int64_t bits = 64 * 64;
    for (const Dim& d : value.shape) {
      if (!d.is_constant()) check_symbols(value, d);
      const int64_t most = std::max<int64_t>(1, largest(d, ranges_));
      require(is_open || !__builtin_mul_overflow(bits, most, &bits),
              "'" + value.name + "' has absurd extents");
    }
  }
  void check_symbols(const Value& value, const Dim& dim) const {
    const std::set<std::string> found = dim.data_dependent_names();
    for (const std::string& symbol : dim.symbols())
      require(ranges_.contains(symbol) || found.contains(symbol),
              "'" + value.name + "' has the unknown symbol '" + symbol + "'");
  }

  const Graph& graph_;
  const SymbolRanges& ranges_;
};

// A dim that only a run finds may be another one than its operator infers, where a rewrite made known what it
// depended on. Memory is planned for its bound, which must hold all that the operator may give.
void check_found_dims(const Graph& graph, const Node& node, const SymbolRanges& ranges) {
  const auto is_found = [&](ValueId id) {
    return id != kNoValue && std::any_of(graph.value(id).shape.begin(), graph.value(id).shape.end(),
                                         [](const Dim& d) { return !d.data_dependent_names().empty(); });
  };
  if (std::none_of(node.outputs.begin(), node.outputs.end(), is_found)) return;
  std::vector<const Value*> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(id == kNoValue ? nullptr : &graph.value(id));
  const auto results = infer(node.op, node.epilogue, InferContext{node.name, inputs, node.outputs.size()});
  for (size_t i = 0; i < results.size(); ++i) {
    if (!is_found(node.outputs[i])) continue;
    const Value& value = graph.value(node.outputs[i]);
    for (size_t d = 0; d < value.shape.size(); ++d)
      require(largest(value.shape[d], ranges) >= largest(results[i].shape[d], ranges),
              "'" + value.name + "' has less room than layer '" + node.name + "' may fill");
  }
}

// --- choices

void check_operand_types(const Graph& graph, const Node& node, const std::vector<ValueId>& values,
                         const std::vector<TensorType>& types) {
  require(values.size() == types.size(),
          "the tactic of layer '" + node.name + "' does not type every operand");
  for (size_t k = 0; k < values.size(); ++k) {
    if (values[k] == kNoValue) continue;
    const Value& v = graph.value(values[k]);
    const bool packed = v.is_constant() && types[k] == TensorType{};
    require(packed || types[k] == TensorType{v.dtype, v.format},
            "the tactic of layer '" + node.name + "' has another type for '" + v.name + "'");
  }
}

// Operands that lie inside one another: only where a view of that layer and these types moves nothing.
void check_view(const LayerQuery& query, const Tactic& tactic) {
  static const ViewRules any{.formats = {kLinear, kChannelsLast, kBlocked16, kBlocked8},
                             .small_floats = true};
  const std::vector<Tactic> views = list_views(query, any);
  require(std::any_of(views.begin(), views.end(),
                      [&](const Tactic& view) { return view.support.ok && view.same_types(tactic); }),
          "layer '" + query.layer().name + "' cannot be a view");
}

void check_tactic(const LayerQuery& query, const Tactic& tactic);

// Without tactics nobody says how values of a body are stored, also of bodies in bodies.
void check_all_linear(const Graph& body) {
  for (size_t v = 0; v < body.value_count(); ++v) {
    const Value& value = body.value(static_cast<ValueId>(v));
    require(value.format.is_linear(), "'" + value.name + "' of a body is not linear");
  }
  for (const NodeId id : body.order())
    for (const Body& inner : bodies_of(body.node(id).op)) check_all_linear(inner.graph());
}

// What a body takes and gives lies as the operator around it has it. Bodies without tactics get some when
// they are made.
void check_bodies(const LayerQuery& query, const Tactic& tactic) {
  const std::vector<Body> bodies = bodies_of(query.layer().op);
  require(tactic.bodies.empty() || tactic.bodies.size() == bodies.size(),
          "layer '" + query.layer().name + "' has tactics for another number of bodies");
  for (size_t b = 0; b < bodies.size(); ++b) {
    const Graph& body = bodies[b].graph();
    for (const auto* values : {&body.inputs(), &body.outputs()})
      for (const ValueId v : *values)
        require(body.value(v).format.is_linear(), "'" + body.value(v).name + "' of a body is not linear");
    if (tactic.bodies.empty()) {
      check_all_linear(body);
      continue;
    }
    require(tactic.bodies[b].size() == body.order().size(),
            "a body of layer '" + query.layer().name + "' has another number of tactics than layers");
    const SymbolRanges inside = ranges_inside(body, query.ranges);
    for (size_t i = 0; i < body.order().size(); ++i)
      check_tactic({body, body.order()[i], inside}, tactic.bodies[b][i]);
  }
}

void check_tactic(const LayerQuery& query, const Tactic& tactic) {
  const Node& node = query.layer();
  check_operand_types(query.graph, node, node.inputs, tactic.inputs);
  check_operand_types(query.graph, node, node.outputs, tactic.outputs);
  for (const int k : tactic.in_place_inputs)
    require(k >= 0 && static_cast<size_t>(k) < node.inputs.size(), "an in-place input that does not exist");
  if (tactic.is_view) check_view(query, tactic);
  check_bodies(query, tactic);
}

void check_choices(const PlanVariant& v, const SymbolRanges& ranges) {
  const Graph& graph = *v.graph;
  require(v.choices.size() == graph.order().size(), "it has another number of choices than layers");
  for (size_t i = 0; i < v.choices.size(); ++i)
    check_tactic({graph, graph.order()[i], ranges}, v.choices[i].tactic);
}

// --- a batch in parts

// Bindings are cut along their first dim, and nothing else knows how large the batch is.
void check_split(const PlanVariant& v) {
  const std::string& symbol = v.split.symbol;
  const auto range = v.ranges.find(symbol);
  require(v.split.on() && range != v.ranges.end() && v.split.part <= range->second.max,
          "its batch is split in parts that it does not have");
  const auto is_batch = [&](const Shape& shape) { return !shape.empty() && shape[0] == Dim::symbol(symbol); };
  const auto rest_has_it = [&](const Shape& shape) {
    return std::any_of(shape.begin() + (is_batch(shape) ? 1 : 0), shape.end(),
                       [&](const Dim& d) { return d.symbols().contains(symbol); });
  };
  for (const NodeId id : v.graph->order())
    for (const ValueId out : v.graph->node(id).outputs)
      for (const Dim& d : out == kNoValue ? Shape() : v.graph->value(out).shape)
        require(d.data_dependent_names().empty(), "its batch is split although shapes depend on data");
  for (const ValueId id : v.graph->outputs())
    require(is_batch(v.graph->value(id).shape), "an output is no batch, but the batch is split");
  for (const std::vector<ValueId>* bindings : {&v.graph->inputs(), &v.graph->outputs()})
    for (const ValueId id : *bindings)
      require(!rest_has_it(v.graph->value(id).shape),
              "'" + v.graph->value(id).name + "' has the batch in more than its first dim");
}

// --- memory

class MemoryChecker {
 public:
  MemoryChecker(const PlanVariant& v, const SymbolRanges& ranges, WeightBytes weights)
      : weights_(weights),
        graph_(*v.graph),
        choices_(v.choices),
        memory_(v.memory),
        ranges_(ranges),
        views_(analyze_views(graph_, choices_)),
        expected_(graph_.value_count(), Placement::Kind::None) {}

  void run() {
    require(views_.conflicts.empty(), "a view needs a copy that is not there");
    lives_ = find_lifetimes(graph_, views_);
    check_bindings();
    check_constants();
    check_slots();
    check_arena();
    check_views();
    for (size_t v = 0; v < expected_.size(); ++v)
      require(
          memory_.placements[v].kind == expected_[v] ||
              (expected_[v] == Placement::Kind::None && graph_.value(static_cast<ValueId>(v)).is_constant()),
          "'" + name(static_cast<ValueId>(v)) + "' lies where it may not");
  }

 private:
  static size_t index(ValueId v) { return static_cast<size_t>(v); }
  const Placement& at(ValueId v) const { return memory_.placements[index(v)]; }
  const std::string& name(ValueId v) const { return graph_.value(v).name; }
  ValueId root(ValueId v) const { return views_.storage[index(v)].root; }

  // Each has the memory that the caller gives for it, and nobody else has it.
  void check_bindings() {
    int binding = 0;
    for (const ValueId v : graph_.inputs()) check_binding(v, binding++);
    for (const ValueId v : graph_.outputs()) {
      if (!has_open_size(graph_.value(root(v)), ranges_)) check_binding(root(v), binding);
      ++binding;
    }
  }
  void check_binding(ValueId v, int binding) {
    expected_[index(v)] = Placement::Kind::Binding;
    require(at(v).kind == Placement::Kind::Binding && at(v).binding == binding,
            "'" + name(v) + "' has a wrong binding");
  }

  // Bodies are interpreted: they read all of theirs.
  void check_body_constants(const Graph& body) {
    for (const NodeId id : body.order()) {
      for (const Body& inner : bodies_of(body.node(id).op)) check_body_constants(inner.graph());
      for (const ValueId v : body.node(id).inputs)
        require(v == kNoValue || !body.value(v).is_constant() || body.value(v).constant.size() == 0 ||
                    body.value(v).constant.has_bytes(),
                "a constant of a body has no data: '" + (v == kNoValue ? std::string() : body.value(v).name) +
                    "'");
    }
  }

  bool has_bytes(const Tensor& tensor) const {
    return weights_ == WeightBytes::Absent || tensor.has_bytes() || tensor.recipe();
  }

  // What is read at run time is there; what is small is there in any case.
  void check_constants() {
    for (size_t i = 0; i < graph_.order().size(); ++i) {
      const Node& node = graph_.node(graph_.order()[i]);
      const Tactic& tactic = choices_[i].tactic;
      for (const Body& body : bodies_of(node.op)) check_body_constants(body.graph());
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId v = node.inputs[k];
        if (v == kNoValue || !graph_.value(v).is_constant()) continue;
        const Tensor& tensor = graph_.value(v).constant;
        require(has_bytes(tensor) || dtype_bytes(tensor.dtype(), tensor.size()) > kKeptConstantBytes,
                "the constant '" + name(v) + "' has no data");
        if (tactic.is_view || tactic.inputs[k].dtype != DType::Undefined)
          expected_[index(v)] = Placement::Kind::Constant;
      }
    }
    for (size_t v = 0; v < expected_.size(); ++v)
      if (memory_.placements[v].kind == Placement::Kind::Constant ||
          expected_[v] == Placement::Kind::Constant)
        require(graph_.value(static_cast<ValueId>(v)).is_constant() &&
                    has_bytes(graph_.value(static_cast<ValueId>(v)).constant),
                "'" + name(static_cast<ValueId>(v)) + "' has no data");
  }

  // A slot has one value at a time.
  void check_slots() {
    const std::vector<GrownValue> grown = find_grown_values(graph_, views_, lives_, ranges_);
    require(memory_.slots >= 0 && static_cast<size_t>(memory_.slots) <= grown.size(),
            "it has an absurd number of slots");
    std::vector<const GrownValue*> held(static_cast<size_t>(memory_.slots));
    for (const GrownValue& g : grown) {
      expected_[index(g.value)] = Placement::Kind::Grown;
      const Placement& p = at(g.value);
      require(p.kind == Placement::Kind::Grown && p.slot >= 0 && p.slot < memory_.slots,
              "'" + name(g.value) + "' has no slot");
      const GrownValue*& holder = held[static_cast<size_t>(p.slot)];
      require(holder == nullptr || holder->life.last < g.life.first,
              "'" + name(g.value) + "' has the slot of '" + (holder ? name(holder->value) : "") +
                  "', which is still read");
      holder = &g;
    }
  }

  int64_t most_bytes(ValueId v) const {
    Extents most;
    for (const Dim& d : graph_.value(v).shape) most.push_back(std::max<int64_t>(0, d.bounds(ranges_).high));
    return storage_bytes(graph_.value(v).dtype, most, graph_.value(v).format);
  }

  // Blocks that live at the same time do not overlap, and the arena has no more than all of them need.
  void check_arena() {
    int64_t all = 0;
    std::vector<std::vector<ValueId>> begins(choices_.size()), ends(choices_.size());
    for (size_t v = 0; v < lives_.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (lives_[v].first < 0 || root(id) != id || expected_[v] != Placement::Kind::None ||
          graph_.value(id).is_constant())
        continue;
      expected_[v] = Placement::Kind::Arena;
      check_block(id, all);
      begins[static_cast<size_t>(lives_[v].first)].push_back(id);
      ends[static_cast<size_t>(lives_[v].last)].push_back(id);
    }
    require(memory_.arena_bytes >= 0 && memory_.arena_bytes <= all, "its arena has an absurd size");
    std::map<int64_t, ValueId> live;  // by offset
    for (size_t step = 0; step < choices_.size(); ++step) {
      for (const ValueId v : begins[step]) add_block(live, v);
      for (const ValueId v : ends[step])
        if (most_bytes(v) > 0) live.erase(at(v).offset);
    }
  }
  void check_block(ValueId v, int64_t& all) const {
    const int64_t bytes = most_bytes(v);
    require(at(v).kind == Placement::Kind::Arena, "'" + name(v) + "' has no place in the arena");
    require(at(v).offset >= 0 && at(v).offset % kArenaAlignment == 0 && bytes <= memory_.arena_bytes &&
                at(v).offset <= memory_.arena_bytes - bytes,
            "'" + name(v) + "' lies outside the arena");
    require(
        !__builtin_add_overflow(all, (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment, &all),
        "its arena has an absurd size");
  }
  void add_block(std::map<int64_t, ValueId>& live, ValueId v) const {
    const int64_t begin = at(v).offset, bytes = most_bytes(v);
    if (bytes == 0) return;
    const auto next = live.lower_bound(begin);
    const bool hits_next = next != live.end() && next->first < begin + bytes;
    const bool hits_last =
        next != live.begin() && std::prev(next)->first + most_bytes(std::prev(next)->second) > begin;
    require(!hits_next && !hits_last, "'" + name(v) + "' shares memory with '" +
                                          (hits_next   ? name(next->second)
                                           : hits_last ? name(std::prev(next)->second)
                                                       : "") +
                                          "', which is still read");
    live.emplace(begin, v);
  }

  void check_views() {
    for (size_t v = 0; v < views_.storage.size(); ++v) {
      const Storage& storage = views_.storage[v];
      if (storage.root == static_cast<ValueId>(v)) continue;
      expected_[v] = Placement::Kind::View;
      const Placement& p = memory_.placements[v];
      require(p.kind == Placement::Kind::View && p.base == storage.root && p.view_offset == storage.offset,
              "'" + name(static_cast<ValueId>(v)) + "' lies elsewhere in '" + name(storage.root) +
                  "' than its layer says");
    }
  }

  const WeightBytes weights_;
  const Graph& graph_;
  const std::vector<Choice>& choices_;
  const MemoryPlan& memory_;
  const SymbolRanges& ranges_;
  const ViewAnalysis views_;
  std::vector<Placement::Kind> expected_;  // by value
  std::vector<Lifetime> lives_;            // by root
};

}  // namespace

void require(bool condition, const std::string& what) {
  if (!condition) throw_input_error(what);
}

void check_variant(const PlanVariant& variant, WeightBytes weights) {
  check_ranges(variant);
  verify_graph(*variant.graph);
  if (variant.split != BatchSplit()) check_split(variant);
  const SymbolRanges ranges = part_ranges(variant.ranges, variant.split);
  ExtentChecker(*variant.graph, ranges).run();
  for (const NodeId id : variant.graph->order())
    check_found_dims(*variant.graph, variant.graph->node(id), ranges);
  check_choices(variant, ranges);
  MemoryChecker(variant, ranges, weights).run();
}

}  // namespace lathe
