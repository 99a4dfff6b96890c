// SPDX-License-Identifier: Apache-2.0
//
// Reading the text form: a hand-written descent over the characters, so that every error can name line and
// column. The text may come from a damaged file: whatever it says, the result is a graph that keeps all
// structural rules or an Input error. Values must be defined before they are read, which also rules out
// cycles.
#include <cctype>
#include <charconv>
#include <map>
#include <set>

#include "base/error.h"
#include "ir/edit.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace lathe {
namespace {

// `splat` and `random` say a size that the text does not pay for.
constexpr int64_t kMaxGeneratedElements = int64_t{1} << 28;
constexpr size_t kMaxRank = 64;

class Cursor {
 public:
  Cursor(std::string_view text, size_t begin, size_t end) : text_(text), position_(begin), end_(end) {}

  void skip_space() {
    while (position_ < end_) {
      if (text_[position_] == '#') {
        while (position_ < end_ && text_[position_] != '\n') ++position_;
      } else if (std::isspace(static_cast<unsigned char>(text_[position_]))) {
        ++position_;
      } else {
        return;
      }
    }
  }
  bool at_end() {
    skip_space();
    return position_ == end_;
  }
  bool at(char c) { return !at_end() && text_[position_] == c; }
  bool take(char c) {
    if (!at(c)) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected '") + c + "'");
  }
  // Takes `keyword` when it is the next word.
  bool take_word(std::string_view keyword) {
    skip_space();
    const size_t begin = position_;
    if (word() == keyword) return true;
    position_ = begin;
    return false;
  }
  std::string_view word() {
    skip_space();
    const size_t begin = position_;
    while (position_ < end_ && is_word_part(text_[position_])) ++position_;
    return text_.substr(begin, position_ - begin);
  }
  std::string quoted() {
    expect('"');
    std::string result;
    while (true) {
      if (position_ == end_ || text_[position_] == '\n') fail("the quoted text does not end on its line");
      const char c = text_[position_++];
      if (c == '"') return result;
      result += c == '\\' ? escaped() : c;
    }
  }
  // A number up to the next separator; T decides what is allowed.
  template <class T>
  T number() {
    skip_space();
    T value{};
    const auto [end, error] = std::from_chars(text_.data() + position_, text_.data() + end_, value);
    if (error == std::errc::result_out_of_range) fail("the number is out of range");
    if (error != std::errc()) fail("expected a number");
    position_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  // The text up to one of `stops` outside of brackets and quotes, as a cursor of its own.
  Cursor until(std::string_view stops) {
    skip_space();
    const size_t begin = position_;
    int depth = 0;
    for (; position_ < end_; ++position_) {
      const char c = text_[position_];
      if (c == '#') {
        while (position_ < end_ && text_[position_] != '\n') ++position_;
        continue;
      }
      if (depth == 0 && stops.find(c) != std::string_view::npos) break;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (depth < 0) break;
      if (c == '"') skip_quoted();
    }
    // A quoted text that does not end, or ends in a backslash, leads beyond the end.
    position_ = std::min(position_, end_);
    return {text_, begin, position_};
  }
  std::string_view rest() {
    skip_space();
    size_t end = end_;
    while (end > position_ && std::isspace(static_cast<unsigned char>(text_[end - 1]))) --end;
    return text_.substr(position_, end - position_);
  }
  void require_end() {
    if (!at_end()) fail("unexpected text");
  }
  // Runs f and puts this place before the errors it throws.
  template <class F>
  auto located(F&& f) {
    skip_space();
    try {
      return f();
    } catch (Error& error) {
      error.add_context(place());
      throw;
    }
  }
  [[noreturn]] void fail(const std::string& what) const { throw_input_error(place() + ": " + what); }

 private:
  static bool is_word_part(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  }
  std::string place() const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < position_ && i < text_.size(); ++i) {
      column = text_[i] == '\n' ? 1 : column + 1;
      line += text_[i] == '\n';
    }
    return "graph text, line " + std::to_string(line) + ", column " + std::to_string(column);
  }
  void skip_quoted() {
    for (++position_; position_ < end_ && text_[position_] != '"'; ++position_) {
      if (text_[position_] == '\\') ++position_;
    }
  }
  char escaped() {
    if (position_ == end_) fail("the quoted text does not end on its line");
    const char c = text_[position_++];
    if (c != 'x') return c;
    int code = 0;
    const size_t digits = std::min<size_t>(2, end_ - position_);
    const auto [end, error] =
        std::from_chars(text_.data() + position_, text_.data() + position_ + digits, code, 16);
    if (error != std::errc()) fail("expected two hexadecimal digits after \\x");
    position_ = static_cast<size_t>(end - text_.data());
    return static_cast<char>(code);
  }

  std::string_view text_;
  size_t position_, end_;
};

template <class F>
void read_list(Cursor& in, F&& item) {
  in.expect('[');
  if (in.take(']')) return;
  do item();
  while (in.take(','));
  in.expect(']');
}

// Field values by type; the mirror of field_text in text.cpp.
void read_field(Cursor& in, bool& v) {
  const std::string_view word = in.word();
  if (word != "true" && word != "false") in.fail("expected true or false");
  v = word == "true";
}
void read_field(Cursor& in, int64_t& v) {
  v = in.number<int64_t>();
}
void read_field(Cursor& in, float& v) {
  v = in.number<float>();
}
void read_field(Cursor& in, double& v) {
  v = in.number<double>();
}
void read_field(Cursor& in, std::string& v) {
  v = in.quoted();
}
void read_field(Cursor& in, DType& v) {
  const std::string_view word = in.word();
  const auto dtype = dtype_from_name(word);
  if (!dtype) in.fail("unknown element type \"" + std::string(word) + "\"");
  v = *dtype;
}
void read_field(Cursor& in, Dim& v) {
  Cursor text = in.until(",]");
  v = text.located([&] { return Dim::parse(text.rest()); });
}
template <class T>
void read_field(Cursor& in, std::vector<T>& v) {
  v.clear();
  read_list(in, [&] { read_field(in, v.emplace_back()); });
}
void read_field(Cursor& in, PointwiseProgram& v) {
  const int inputs = in.at('{') ? 1 : in.number<int>();
  in.expect('{');
  Cursor text = in.until("}");
  v = text.located([&] { return PointwiseProgram::parse(text.rest(), inputs); });
  in.expect('}');
}
template <class E>
requires std::is_enum_v<E>
void read_field(Cursor& in, E& v) {
  const std::string_view word = in.word();
  const auto value = enum_from_name<E>(word);
  if (!value) in.fail("unknown name \"" + std::string(word) + "\"");
  v = *value;
}
template <class T>
void read_field(Cursor& in, std::optional<T>& v) {
  if (!in.take_word("none")) read_field(in, v.emplace());
}

using ReadBody = std::function<Body(Cursor&)>;

void read_fields(Cursor& in, Op& op, const ReadBody& read_body) {
  std::map<std::string, Cursor, std::less<>> fields;
  in.expect('{');
  if (!in.take('}')) {
    do {
      const std::string name(in.word());
      in.expect('=');
      if (!fields.emplace(name, in.until(",}")).second) in.fail("field " + name + " is given twice");
    } while (in.take(','));
    in.expect('}');
  }
  std::visit(
      [&]<class T>(T& target) {
        T::visit(target, [&]<class F>(std::string_view name, F& field) {
          const auto found = fields.find(name);
          if (found == fields.end()) return;
          if constexpr (std::is_same_v<F, Body>)
            field = read_body(found->second);
          else
            read_field(found->second, field);
          found->second.require_end();
          fields.erase(found);
        });
      },
      op);
  if (fields.empty()) return;
  fields.begin()->second.fail(std::string(op_name(op)) + " has no field \"" + fields.begin()->first + "\"");
}

// Small pseudo-random values: floats in [-0.5, 0.5), integers in [0, 8). A 64-bit linear congruential
// generator.
std::vector<double> random_values(size_t count, uint64_t seed, bool real) {
  std::vector<double> values(count);
  uint64_t state = seed * 2654435761u + 88172645463325252u;
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto bits = static_cast<double>(state >> 40);
    value = real ? bits / (1 << 24) - 0.5 : static_cast<double>((state >> 40) & 7);
  }
  return values;
}

class Parser {
 public:
  Parser(const Cursor& in, const std::function<Tensor(int64_t)>& constant, int depth = 0)
      : in_(in), constant_(constant), editor_(graph_), depth_(depth) {}

  Graph parse() {
    if (depth_ > kMaxBodies) in_.fail("bodies lie in each other deeper than " + std::to_string(kMaxBodies));
    if (!in_.take_word("graph")) in_.fail("expected \"graph\"");
    editor_.set_name(in_.quoted());
    in_.expect('{');
    while (!in_.take('}')) statement();
    in_.require_end();
    return std::move(graph_);
  }

 private:
  Cursor here() {
    in_.skip_space();
    return in_;
  }

  void statement() {
    if (in_.at('%') || in_.at('_')) return node();
    const Cursor start = here();
    const std::string_view word = in_.word();
    if (word == "input") {
      const auto v = declare();
      const ValueId id = editor_.add_input(v.name, v.dtype, v.shape);
      editor_.set_type(id, v.dtype, v.format);
      editor_.set_contents(id, v.contents);
      editor_.set_quantization(id, v.quantization);
    } else if (word == "const") {
      constant();
    } else if (word == "output") {
      editor_.mark_output(read_value());
    } else {
      start.fail("expected input, const, output, a value (%name) or '}'");
    }
  }

  std::string value_name() {
    in_.expect('%');
    std::string name = in_.at('"') ? in_.quoted() : std::string(in_.word());
    if (name.empty()) in_.fail("expected a value's name");
    return name;
  }

  // %name: type
  GraphEditor::NewValue declare() {
    GraphEditor::NewValue v;
    v.name = value_name();
    if (graph_.find_value(v.name) || !declared_.insert(v.name).second)
      in_.fail("value %" + v.name + " is defined twice");
    in_.expect(':');
    read_field(in_, v.dtype);
    v.shape = shape();
    if (in_.take(':')) {
      const std::string_view format = in_.word();
      v.format = in_.located([&] { return format_from_string(format); });
      if (!v.format.is_linear() && v.shape.size() < 2) in_.fail("a channel format needs a channel axis");
    }
    if (in_.take_word("contents")) read_field(in_, v.contents.emplace());
    if (in_.take_word("quantized")) quantization(v);
    return v;
  }

  void expect_word(std::string_view wanted) {
    if (!in_.take_word(wanted)) in_.fail("expected \"" + std::string(wanted) + "\"");
  }

  void quantization(GraphEditor::NewValue& v) {
    const Cursor start = here();
    Quantization& q = v.quantization.emplace();
    read_field(in_, q.dtype);
    expect_word("scale");
    read_field(in_, q.scales);
    expect_word("zero");
    q.zeros.clear();
    read_list(in_, [&] { q.zeros.push_back(in_.number<int32_t>()); });
    if (in_.take_word("axis")) read_field(in_, q.axis);
    const std::string error = quantization_error(q, v.shape);
    if (!error.empty()) start.fail("%" + v.name + ": " + error);
  }

  Shape shape() {
    Shape shape;
    read_field(in_, shape);
    if (shape.size() > kMaxRank) in_.fail("a tensor has at most " + std::to_string(kMaxRank) + " dims");
    for (const Dim& dim : shape) {
      if (dim.is_constant() && dim.value() < 0) in_.fail("a dim is negative");
    }
    return shape;
  }

  ValueId read_value() {
    const Cursor start = here();
    const std::string name = value_name();
    const auto id = graph_.find_value(name);
    if (!id) start.fail("value %" + name + " is not defined before it is read");
    return *id;
  }

  void constant() {
    const Cursor start = here();
    const auto v = declare();
    if (!is_static(v.shape)) start.fail("constant %" + v.name + " has a shape that is not constant");
    if (!v.format.is_linear()) start.fail("constant %" + v.name + " is not linear");
    in_.expect('=');
    Tensor tensor = in_.located([&] { return tensor_of(v.dtype, to_extents(v.shape)); });
    if (!tensor || tensor.dtype() != v.dtype || to_shape(tensor.extents()) != v.shape) {
      start.fail("the data of constant %" + v.name + " has another type or shape");
    }
    const ValueId id = editor_.add_constant(v.name, std::move(tensor));
    editor_.set_contents(id, v.contents);
    editor_.set_quantization(id, v.quantization);
  }

  Tensor tensor_of(DType dtype, const Extents& extents) {
    if (in_.take_word("ref")) return referred();
    const int64_t count = element_count(extents);
    const bool splat = in_.take_word("splat");
    if (splat || in_.take_word("random")) {
      if (count > kMaxGeneratedElements) in_.fail("too many elements");
      const auto elements = static_cast<size_t>(count);
      if (splat) return tensor_from_text(dtype, extents, elements);
      return Tensor::from_doubles(dtype, extents,
                                  random_values(elements, in_.number<uint32_t>(), is_float(dtype)));
    }
    return tensor_from_text(dtype, extents, 0);
  }

  Tensor referred() {
    if (in_.at('h')) in_.fail("the constant's data is not in this text (it says only its hash)");
    const auto index = in_.number<int64_t>();
    if (!constant_)
      in_.fail("the text refers to constant " + std::to_string(index) + ", which is not at hand");
    return constant_(index);
  }

  // `repeat` > 0: one element for all.
  Tensor tensor_from_text(DType dtype, const Extents& extents, size_t repeat) {
    switch (dtype) {
      case DType::Int64:
        return Tensor::from(extents, elements<int64_t>(extents, repeat));
      case DType::UInt64:
        return Tensor::from(extents, elements<uint64_t>(extents, repeat));
      case DType::Float32:
        return Tensor::from(extents, elements<float>(extents, repeat));
      default:
        return Tensor::from_doubles(dtype, extents, elements<double>(extents, repeat));
    }
  }

  template <class T>
  std::vector<T> elements(const Extents& extents, size_t repeat) {
    if (repeat > 0) return std::vector<T>(repeat, in_.number<T>());
    std::vector<T> values;
    read_list(in_, [&] { values.push_back(in_.number<T>()); });
    if (static_cast<int64_t>(values.size()) != element_count(extents)) {
      in_.fail(std::to_string(values.size()) + " elements for a tensor of " + lathe::to_string(extents));
    }
    return values;
  }

  void node() {
    std::vector<GraphEditor::NewValue> outputs;
    do {
      outputs.push_back(in_.take('_') ? GraphEditor::NewValue{} : declare());
    } while (in_.take(','));
    in_.expect('=');
    const Cursor start = here();
    const std::string_view op_text = in_.word();
    auto op = op_from_name(op_text);
    if (!op) start.fail("unknown operator \"" + std::string(op_text) + "\"");
    const std::string name = in_.quoted();
    if (name.empty() || !node_names_.insert(name).second)
      start.fail("node name \"" + name + "\" is empty or used twice");
    std::vector<ValueId> inputs = read_inputs();
    if (in_.at('{')) read_fields(in_, *op, [&](Cursor& body) { return read_body(body); });
    PointwiseProgram epilogue;
    if (in_.take_word("epilogue")) epilogue = read_epilogue(inputs, outputs);
    std::vector<DType> allowed;
    if (in_.take_word("allow")) read_field(in_, allowed);
    std::vector<Origin> origins;
    if (in_.take_word("from")) {
      read_list(in_, [&] {
        Origin& origin = origins.emplace_back();
        origin.name = in_.quoted();
        origin.op_type = in_.at('"') ? in_.quoted() : std::string(in_.word());
      });
    }
    const NodeId id = editor_.add_node(name, std::move(*op), {}, std::move(outputs), std::move(origins));
    if (!epilogue.empty()) {
      const auto operands = inputs.end() - (epilogue.input_count - 1);
      editor_.set_inputs(id, {inputs.begin(), operands});
      editor_.set_epilogue(id, std::move(epilogue), {operands, inputs.end()});
    } else {
      editor_.set_inputs(id, std::move(inputs));
    }
    editor_.set_allowed_types(id, std::move(allowed));
  }

  Body read_body(Cursor& text) {
    if (text.take_word("none")) return {};
    Parser inner(text, constant_, depth_ + 1);
    Body body(inner.parse());
    text = inner.in_;
    return body;
  }

  std::vector<ValueId> read_inputs() {
    std::vector<ValueId> inputs;
    in_.expect('(');
    if (in_.take(')')) return inputs;
    do inputs.push_back(in_.take('_') ? kNoValue : read_value());
    while (in_.take(','));
    in_.expect(')');
    return inputs;
  }

  PointwiseProgram read_epilogue(const std::vector<ValueId>& inputs,
                                 const std::vector<GraphEditor::NewValue>& outputs) {
    PointwiseProgram program;
    read_field(in_, program);
    if (program.empty()) in_.fail("the epilogue has no steps");
    if (program.input_count < 1 || static_cast<size_t>(program.input_count) > inputs.size() + 1) {
      in_.fail("the epilogue has " + std::to_string(program.input_count) + " inputs, the node only " +
               std::to_string(inputs.size()));
    }
    for (size_t i = inputs.size() + 1 - static_cast<size_t>(program.input_count); i < inputs.size(); ++i) {
      if (inputs[i] == kNoValue) in_.fail("an operand of the epilogue is absent");
    }
    if (outputs[0].name.empty()) in_.fail("a node with an epilogue needs its first output");
    return program;
  }

  Cursor in_;
  const std::function<Tensor(int64_t)>& constant_;
  Graph graph_;
  GraphEditor editor_;
  std::set<std::string> node_names_, declared_;
  const int depth_;
};

}  // namespace

Graph parse_graph(std::string_view text, const std::function<Tensor(int64_t)>& constant) {
  return Parser(Cursor(text, 0, text.size()), constant).parse();
}

}  // namespace lathe
