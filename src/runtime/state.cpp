// SPDX-License-Identifier: Apache-2.0
#include "runtime/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "runtime/engine.h"

namespace lathe {
namespace {

size_t index_of(const std::vector<TensorInfo>& infos, std::string_view name, std::string_view what) {
  std::string names;
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].name == name) return i;
    names += (i ? ", " : "") + infos[i].name;
  }
  throw_input_error(fmt::format("the engine has no {} '{}'; there are: {}", what, name, names));
}

// Pieces of a tensor whose memory has room: `count` of `bytes` each, `stride` bytes apart in memory.
struct Pieces {
  int64_t count = 1, bytes = 0, stride = 0;
};
Pieces pieces_of(DType dtype, const Extents& extents, const std::optional<Room>& room) {
  Pieces pieces;
  int64_t row = 1;
  const size_t axis = room ? room->axis : 0;
  for (size_t d = 0; d < extents.size(); ++d) {
    if (room && d < axis) pieces.count *= extents[d];
    if (d > axis) row *= extents[d];
  }
  const int64_t rows = extents.empty() ? 1 : extents[axis];
  pieces.bytes = dtype_bytes(dtype, rows * row);
  pieces.stride = room ? dtype_bytes(dtype, room->rows * row) : pieces.bytes;
  return pieces;
}

Tensor zeros(DType dtype, const Extents& extents) {
  Tensor tensor = Tensor::allocate(dtype, extents);
  const std::span<std::byte> bytes = tensor.mutable_bytes();
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  return tensor;
}

int64_t volume_in_front(const Extents& extents, size_t axis) {
  int64_t count = 1;
  for (size_t d = 0; d < axis; ++d) count *= extents[d];
  return count;
}

}  // namespace

State::State(const Engine& engine, int profile, std::span<const StatePair> pairs, Execution& execution)
    : engine_(engine), profile_(profile), execution_(execution) {
  std::set<std::string> inputs, outputs;
  for (const StatePair& names : pairs) {
    if (!inputs.insert(names.input).second)
      throw_input_error(fmt::format("input '{}' is in two pairs of state", names.input));
    if (!outputs.insert(names.output).second)
      throw_input_error(fmt::format(
          "output '{}' is in two pairs of state: give each input an output of its own", names.output));
    pairs_.push_back(make_pair(names));
    for (const size_t d : pairs_.back().varying)
      changing_symbols_.merge(input_info(pairs_.back()).shape[d].symbols());
  }
}

State::~State() {
  if (!appends_.empty()) dynamic_cast<Appending&>(execution_).append_in_place({});
}

const TensorInfo& State::input_info(const Pair& pair) const {
  return engine_.inputs()[pair.input];
}
// A dim of the output, as the program's rules have it: more than the model declares.
const Dim& State::dim_after(const Pair& pair, size_t d) const {
  const Graph& graph = engine_.graph(profile_);
  return graph.value(graph.outputs()[pair.output]).shape[d];
}

State::Pair State::make_pair(const StatePair& names) const {
  Pair pair;
  pair.names = names;
  pair.input = index_of(engine_.inputs(), names.input, "input");
  pair.output = index_of(engine_.outputs(), names.output, "output");
  const TensorInfo &in = engine_.inputs()[pair.input], &out = engine_.outputs()[pair.output];
  const auto refuse = [&](const std::string& why) {
    throw_input_error(fmt::format("input '{}' ({} {}) and output '{}' ({} {}) cannot be state: {}", in.name,
                                  dtype_name(in.dtype), to_string(in.shape), out.name, dtype_name(out.dtype),
                                  to_string(out.shape), why));
  };
  if (in.dtype != out.dtype) refuse("their types differ");
  if (in.shape.size() != out.shape.size()) refuse("their ranks differ");
  if (!in.format.is_linear() || !out.format.is_linear())
    refuse("state is in linear format; leave them out of --inputIOFormats and --outputIOFormats");
  if (in.contents) refuse("elements of the input decide shapes, which the host must know before a step");
  for (size_t d = 0; d < in.shape.size(); ++d) {
    const Dim &before = in.shape[d], &after = dim_after(pair, d);
    if (!after.data_dependent_names().empty())
      refuse(fmt::format("dim {} of the output is known only when a step has run", d));
    const Interval bounds = after.bounds(engine_.variant(profile_).ranges);
    if (before.is_constant() && (bounds.low != before.value() || bounds.high != before.value()))
      refuse(
          fmt::format("dim {} is {} before a step and {} after it; export the model with a dynamic dim there",
                      d, before.value(), after.to_string()));
  }
  find_varying(pair);
  return pair;
}

// [batch, past] and [batch, past + 1]: dim 1. Where the profile leaves a symbol one value, the program has
// the number.
void State::find_varying(Pair& pair) const {
  const Shape& shape = input_info(pair).shape;
  const SymbolRanges& ranges = engine_.variant(profile_).ranges;
  for (size_t d = 0; d < shape.size(); ++d) {
    const Dim& after = dim_after(pair, d);
    const Interval one = shape[d].bounds(ranges), other = after.bounds(ranges);
    const bool fixed = one.low == one.high && other.low == other.high && one.low == other.low;
    if (shape[d] != after && !fixed) pair.varying.push_back(d);
  }
}

// What was there stays: the dim after a step is made from the one before it.
bool State::grows(const Pair& pair, size_t d) const {
  const std::set<std::string> before = input_info(pair).shape[d].symbols(),
                              after = dim_after(pair, d).symbols();
  return std::count(pair.varying.begin(), pair.varying.end(), d) > 0 &&
         std::all_of(before.begin(), before.end(), [&](const std::string& s) { return after.contains(s); });
}

bool State::has_input(size_t input) const {
  return std::any_of(pairs_.begin(), pairs_.end(), [&](const Pair& p) { return p.input == input; });
}
bool State::has_output(size_t output) const {
  return std::any_of(pairs_.begin(), pairs_.end(), [&](const Pair& p) { return p.output == output; });
}
size_t State::find(std::string_view input) const {
  std::string names;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    if (pairs_[i].names.input == input) return i;
    names += (i ? ", " : "") + pairs_[i].names.input;
  }
  throw_input_error(fmt::format("'{}' is no input that is kept as state; those are: {}", input, names));
}

void State::set(size_t index, Tensor values) {
  Pair& pair = pairs_[index];
  const TensorInfo& info = input_info(pair);
  if (values.dtype() != info.dtype)
    throw_input_error(fmt::format("state '{}' has type {}, but was given {}", info.name,
                                  dtype_name(info.dtype), dtype_name(values.dtype())));
  SymbolBinder().bind_shape(info, values.extents());  // rank and static dims
  pair.initial = std::move(values);
  pair.has_begun = pair.has_stepped = false;
}

void State::reset() {
  for (Pair& pair : pairs_) pair.has_begun = pair.has_stepped = false;
}

bool State::has_stepped() const {
  return std::any_of(pairs_.begin(), pairs_.end(), [](const Pair& p) { return p.has_stepped; });
}

Extents State::first_extents(const Pair& pair, const SymbolValues& known) const {
  const TensorInfo& info = input_info(pair);
  const SymbolRanges& ranges = engine_.variant(profile_).ranges;
  Extents extents;
  for (size_t d = 0; d < info.shape.size(); ++d) {
    const Dim& dim = info.shape[d];
    const std::set<std::string> symbols = dim.symbols();
    const bool is_known =
        std::all_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return known.contains(s); });
    const Interval bounds = dim.bounds(ranges);
    const bool varies = std::count(pair.varying.begin(), pair.varying.end(), d) > 0;
    if (!is_known && !varies && bounds.low != bounds.high)
      throw_input_error(
          fmt::format("dim {} of state '{}' {} follows from no input that is given: set the state's first "
                      "values, which say it",
                      d, info.name, to_string(info.shape)));
    extents.push_back(is_known ? dim.evaluate(known) : bounds.low);
    if (grows(pair, d) && extents.back() > 0)
      throw_input_error(
          fmt::format("state '{}' {} begins with {} rows along dim {}, and nothing says what is in them: set "
                      "the state's first values, or "
                      "build the engine with a least extent of 0 there",
                      info.name, to_string(info.shape), extents.back(), d));
  }
  return extents;
}

void State::begin(SymbolValues known, Stream& stream) {
  for (const Pair& pair : pairs_) {
    if (!pair.has_stepped && !pair.initial) continue;
    const Extents& extents = pair.has_stepped ? pair.extents : pair.initial->extents();
    for (size_t d = 0; d < extents.size(); ++d)
      if (const auto symbol = input_info(pair).shape[d].as_symbol()) known.emplace(*symbol, extents[d]);
  }
  std::vector<Append> appends;
  for (Pair& pair : pairs_) {
    if (!pair.has_stepped)
      begin(pair, pair.initial ? pair.initial->extents() : first_extents(pair, known), stream);
    if (pair.room) appends.push_back({pair.input, pair.output, *pair.room});
  }
  if (appends == appends_) return;
  dynamic_cast<Appending&>(execution_).append_in_place(appends);
  appends_ = std::move(appends);
}

// Until a step was made, other shapes of the step's data may give it other extents.
void State::begin(Pair& pair, Extents extents, Stream& stream) const {
  if (pair.has_begun && extents == pair.extents) return;
  pair.has_begun = false;
  pair.extents = std::move(extents);
  const Extents capacity = capacity_of(pair);
  for (const size_t d : pair.varying)
    if (pair.extents[d] > capacity[d])
      throw_input_error(fmt::format(
          "state '{}' begins with {} rows along dim {}, and the optimization profile has room for {}",
          pair.names.input, pair.extents[d], d, capacity[d]));
  if (pair.memory == nullptr || capacity != pair.capacity) {
    pair.memory.reset();
    pair.next.reset();
    pair.capacity = capacity;
    choose_memory(pair);
  }
  fill(pair, stream);
  pair.has_begun = true;
}

// Most that a step can read or write in the optimization profile; dims that do not vary are those of the
// state.
Extents State::capacity_of(const Pair& pair) const {
  const SymbolRanges& ranges = engine_.variant(profile_).ranges;
  Extents capacity = pair.extents;
  for (const size_t d : pair.varying)
    capacity[d] =
        std::max(input_info(pair).shape[d].bounds(ranges).high, dim_after(pair, d).bounds(ranges).high);
  return capacity;
}

void State::choose_memory(Pair& pair) const {
  const auto bytes = static_cast<size_t>(
      std::max<int64_t>(1, dtype_bytes(input_info(pair).dtype, element_count(pair.capacity))));
  const auto* appending = dynamic_cast<const Appending*>(&execution_);
  pair.room.reset();
  AppendForm form;
  if (pair.varying.empty())
    form.reason = "a step replaces it";
  else if (!engine_.backend()->is_host())
    form.reason = "only the CPU appends in place";
  else if (appending == nullptr)
    form.reason = "the batch is split among threads";
  else
    form = appending->append_form(pair.input, pair.output);
  if (form.reason.empty() && pair.varying != std::vector<size_t>{form.axis})
    form.reason = fmt::format("it does not grow along axis {} alone", form.axis);
  if (form.reason.empty() && !form.dense_reader.empty() && volume_in_front(pair.capacity, form.axis) > 1)
    form.reason = form.dense_reader + " reads it without gaps";
  pair.why_swapped = form.reason;
  if (form.reason.empty())
    pair.room = Room{form.axis, pair.capacity[form.axis]};
  else
    pair.next = engine_.backend()->allocate(bytes);
  pair.memory = engine_.backend()->allocate(bytes);  // last: with it the pair has all that it needs
}

void State::fill(Pair& pair, Stream& stream) const {
  const TensorInfo& info = input_info(pair);
  const Tensor values = pair.initial ? *pair.initial : zeros(info.dtype, pair.extents);
  const Pieces pieces = pieces_of(info.dtype, pair.extents, pair.room);
  for (int64_t i = 0; i < pieces.count && pieces.bytes > 0; ++i)
    engine_.backend()->copy_to_device(static_cast<std::byte*>(pair.memory->data()) + i * pieces.stride,
                                      values.bytes().data() + i * pieces.bytes,
                                      static_cast<size_t>(pieces.bytes), stream);
  stream.synchronize();
}

std::optional<size_t> State::full_dim(const Pair& pair) const {
  const SymbolRanges& ranges = engine_.variant(profile_).ranges;
  for (const size_t d : pair.varying)
    if (pair.has_begun && pair.extents[d] > input_info(pair).shape[d].bounds(ranges).high) return d;
  return std::nullopt;
}

bool State::is_full() const {
  return std::any_of(pairs_.begin(), pairs_.end(),
                     [&](const Pair& pair) { return full_dim(pair).has_value(); });
}

void State::check_room() const {
  for (const Pair& pair : pairs_)
    if (const auto d = full_dim(pair))
      throw_input_error(
          fmt::format("state '{}' is full: it has {} rows along dim {}, and a step of optimization profile "
                      "{} reads {} at most. Reset the "
                      "state, or build the engine with a larger maximum (--maxShapes)",
                      pair.names.input, pair.extents[*d], *d, profile_,
                      input_info(pair).shape[*d].bounds(engine_.variant(profile_).ranges).high));
}

void State::bind(std::span<void*> bindings) const {
  for (const Pair& pair : pairs_) {
    bindings[pair.input] = pair.memory->data();
    bindings[engine_.inputs().size() + pair.output] = pair.next ? pair.next->data() : pair.memory->data();
  }
}

void State::advance() {
  const Graph& graph = engine_.graph(profile_);
  for (Pair& pair : pairs_) {
    pair.extents = execution_.extents(graph.outputs()[pair.output]);
    pair.has_stepped = true;
    if (pair.next) std::swap(pair.memory, pair.next);
  }
}

Tensor State::read(size_t index, Stream& stream) const {
  const Pair& pair = pairs_[index];
  if (!pair.has_begun) {
    if (pair.initial) return *pair.initial;
    throw_input_error(fmt::format("state '{}' has not begun: there was no step yet", pair.names.input));
  }
  const DType dtype = input_info(pair).dtype;
  Tensor values = Tensor::allocate(dtype, pair.extents);
  const Pieces pieces = pieces_of(dtype, pair.extents, pair.room);
  for (int64_t i = 0; i < pieces.count && pieces.bytes > 0; ++i)
    engine_.backend()->copy_to_host(values.mutable_bytes().data() + i * pieces.bytes,
                                    static_cast<const std::byte*>(pair.memory->data()) + i * pieces.stride,
                                    static_cast<size_t>(pieces.bytes), stream);
  stream.synchronize();
  return values;
}

std::string State::note(size_t index) const {
  const Pair& pair = pairs_[index];
  const std::string names = pair.names.input + " -> " + pair.names.output + ": ";
  if (pair.memory == nullptr) return names + "no step was prepared yet";
  if (!pair.room) return names + "two memories that change places, because " + pair.why_swapped;
  return fmt::format("{}appended in place along axis {}, room for {}", names, pair.room->axis,
                     pair.room->rows);
}

int64_t State::bytes() const {
  size_t bytes = 0;
  for (const Pair& pair : pairs_)
    bytes += (pair.memory ? pair.memory->bytes() : 0) + (pair.next ? pair.next->bytes() : 0);
  return static_cast<int64_t>(bytes);
}

}  // namespace lathe
