// SPDX-License-Identifier: Apache-2.0
//
// Dims as text and back. The grammar, lowest binding first:
//   dim     := sum [ "<=" dim ]              the part before "<=" must be a name: data-dependent, with its
//                                            upper bound
//   sum     := ["-"] product { ("+" | "-") product }
//   product := factor { "*" factor }
//   factor  := integer | name | function "(" dim "," dim ")" | "(" dim ")"
// Names that are not [A-Za-z_][A-Za-z0-9_.]* are quoted: "a/b".
#include <cctype>
#include <charconv>

#include "base/error.h"
#include "ir/dim_expr.h"

namespace lathe {
namespace {

using Kind = DimAtom::Kind;

// Deeper nesting is no dimension but an attack on the stack.
constexpr int kMaxDepth = 100;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool is_name_part(char c) {
  return is_name_start(c) || is_digit(c) || c == '.';
}

std::string_view function_name(Kind kind) {
  switch (kind) {
    case Kind::FloorDiv:
      return "floor_div";
    case Kind::Mod:
      return "mod";
    case Kind::Min:
      return "min";
    default:
      return "max";
  }
}

std::string name_text(const std::string& name) {
  bool plain = is_name_start(name[0]);
  for (char c : name) plain = plain && is_name_part(c);
  if (plain) return name;
  std::string text = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

std::string atom_text(const DimAtom& atom, bool alone) {
  switch (atom.kind) {
    case Kind::Symbol:
      return name_text(atom.name);
    case Kind::DataDependent: {
      const std::string text = name_text(atom.name) + "<=" + atom.a.to_string();
      return alone ? text : "(" + text + ")";
    }
    default:
      return std::string(function_name(atom.kind)) + "(" + atom.a.to_string() + ", " + atom.b.to_string() +
             ")";
  }
}

class DimReader {
 public:
  explicit DimReader(std::string_view text) : text_(text) {}

  Dim whole() {
    const Dim dim = bounded();
    skip_space();
    if (position_ != text_.size()) fail("unexpected text after the dimension");
    return dim;
  }

 private:
  Dim bounded() {
    if (++depth_ > kMaxDepth) fail("nested too deeply");
    Dim dim = sum();
    skip_space();
    if (text_.substr(position_).starts_with("<=")) {
      const auto name = dim.as_symbol();
      if (!name) fail("only a name may stand before \"<=\"");
      position_ += 2;
      dim = Dim::data_dependent(*name, bounded());
    }
    --depth_;
    return dim;
  }

  Dim sum() {
    // A minus belongs to the number behind it, so that the lowest 64-bit integer can be read.
    skip_space();
    const bool number = position_ + 1 < text_.size() && is_digit(text_[position_ + 1]);
    const bool negative = !number && take('-');
    Dim total = product();
    if (negative) total = total * Dim(-1);
    while (true) {
      if (take('+')) {
        total = total + product();
      } else if (take('-')) {
        total = total - product();
      } else {
        return total;
      }
    }
  }

  Dim product() {
    Dim total = factor();
    while (take('*')) total = total * factor();
    return total;
  }

  Dim factor() {
    if (take('(')) {
      const Dim dim = bounded();
      expect(')');
      return dim;
    }
    skip_space();
    if (position_ == text_.size()) fail("expected a number or a name");
    const char c = text_[position_];
    const bool minus = c == '-' && position_ + 1 < text_.size() && is_digit(text_[position_ + 1]);
    if (is_digit(c) || minus) return integer();
    if (c == '"') return Dim::symbol(quoted());
    if (!is_name_start(c)) fail("expected a number or a name");
    const size_t begin = position_;
    while (position_ < text_.size() && is_name_part(text_[position_])) ++position_;
    const std::string_view name = text_.substr(begin, position_ - begin);
    if (position_ < text_.size() && text_[position_] == '(') return function(name);
    return Dim::symbol(name);
  }

  Dim function(std::string_view name) {
    expect('(');
    const Dim a = bounded();
    expect(',');
    const Dim b = bounded();
    expect(')');
    if (name == "floor_div") return floor_div(a, b);
    if (name == "ceil_div") return ceil_div(a, b);
    if (name == "mod") return mod(a, b);
    if (name == "min") return min(a, b);
    if (name == "max") return max(a, b);
    fail("unknown function \"" + std::string(name) + "\" (known: floor_div, ceil_div, mod, min, max)");
  }

  Dim integer() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("the number does not fit into 64 bits");
    position_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  std::string quoted() {
    std::string name;
    for (++position_; position_ < text_.size(); ++position_) {
      char c = text_[position_];
      if (c == '"') {
        ++position_;
        if (name.empty()) fail("a symbolic dimension needs a name");
        return name;
      }
      if (c == '\\' && ++position_ < text_.size()) c = text_[position_];
      name += c;
    }
    fail("the quoted name does not end");
  }

  void skip_space() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }
  bool take(char c) {
    skip_space();
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected '") + c + "'");
  }
  [[noreturn]] void fail(const std::string& what) {
    throw_input_error("dimension \"" + std::string(text_) + "\", at character " +
                      std::to_string(position_ + 1) + ": " + what);
  }

  std::string_view text_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string Dim::to_string() const {
  if (is_constant()) return std::to_string(value_);
  const bool alone =
      expr_->terms.size() == 1 && expr_->terms[0].atoms.size() == 1 && expr_->terms[0].coefficient == 1;
  std::string text;
  for (const DimTerm& term : expr_->terms) {
    const bool negative = term.coefficient < 0;
    // The lowest integer has no positive twin; std::to_string of the unsigned magnitude is right for it too.
    const uint64_t magnitude =
        negative ? 0 - static_cast<uint64_t>(term.coefficient) : static_cast<uint64_t>(term.coefficient);
    if (text.empty()) {
      if (negative) text += "-";
    } else {
      text += negative ? " - " : " + ";
    }
    std::string product;
    if (magnitude != 1 || term.atoms.empty()) product = std::to_string(magnitude);
    for (const DimAtom& atom : term.atoms) product += (product.empty() ? "" : "*") + atom_text(atom, alone);
    text += product;
  }
  return text;
}

Dim Dim::parse(std::string_view text) {
  return DimReader(text).whole();
}

}  // namespace lathe
