// SPDX-License-Identifier: Apache-2.0
#include "engine_edits.h"

#include <algorithm>
#include <cctype>

#include "base/file.h"
#include "base/json.h"
#include "engine_files.h"
#include "plan/container.h"
#include "random.h"
#include "run_engine.h"

namespace fuzz {
namespace {

using namespace lathe;

// --- edits

struct Content {
  std::vector<std::pair<std::string, Json>> sections;
  std::vector<std::vector<std::byte>> blocks;
};

Content decode(const EngineFile& file) {
  const ContainerReader reader(file.bytes, file.name, nullptr);
  Content content;
  for (const std::string name : {"manifest", "graph", "target/0"})
    content.sections.emplace_back(name, parse_json(reader.section(name), name));
  for (size_t i = 0; i < reader.block_count(); ++i) {
    const auto block = reader.block(static_cast<int64_t>(i));
    content.blocks.emplace_back(block.begin(), block.end());
  }
  return content;
}

class BytesWriter final : public FileWriter {
 public:
  void write(std::span<const std::byte> bytes) override {
    result.insert(result.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> result;
};

std::vector<std::byte> encode(const Content& content) {
  ContainerWriter container;
  for (const auto& block : content.blocks) container.add_block(block);
  for (const auto& [name, json] : content.sections) container.add_section(name, dump_json(json, -1));
  BytesWriter writer;
  container.write(writer);
  return std::move(writer.result);
}

void collect(Json& json, std::vector<Json*>& all) {
  all.push_back(&json);
  if (json.is_structured())
    for (Json& inner : json) collect(inner, all);
}

// A text is words, numbers and signs; each is changed for another one of its kind, mostly from the same text.
struct Word {
  size_t begin = 0, size = 0;
  enum class Kind { Number, Name, Sign } kind = Kind::Sign;
};
std::vector<Word> words_of(const std::string& text) {
  std::vector<Word> words;
  const auto is_name = [&](size_t i) {
    return std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_' || text[i] == '%' ||
           text[i] == '.';
  };
  for (size_t i = 0; i < text.size();) {
    if (std::isspace(static_cast<unsigned char>(text[i]))) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    if (!is_name(i)) {
      words.push_back({i, 1, Word::Kind::Sign});
    } else {
      bool digits = std::isdigit(static_cast<unsigned char>(text[i]));
      for (; end < text.size() && is_name(end); ++end)
        digits = digits && (std::isdigit(static_cast<unsigned char>(text[end])) || text[end] == '.');
      words.push_back({i, end - i, digits ? Word::Kind::Number : Word::Kind::Name});
    }
    i = end;
  }
  return words;
}

const std::vector<std::string> kNumbers = {
    "0",  "1",  "2",   "3",     "4",          "5",    "7",      "8",        "15", "16",
    "31", "64", "512", "65536", "2147483648", "N*N",  "N + 1",  "N - 3",    "-1", "9223372036854775807",
    "S",  "40", "100", "N",     "4294967297", "1000", "N*1000", "mod(N, 2)"};

void edit_text(std::string& text, Random& random) {
  const std::vector<Word> words = words_of(text);
  if (words.empty()) {
    text = random.pick(kNumbers);
    return;
  }
  const Word& word = words[static_cast<size_t>(random.below(static_cast<int64_t>(words.size())))];
  std::string other;
  if (word.kind == Word::Kind::Number && random.chance(0.6)) {
    other = random.pick(kNumbers);
  } else {
    std::vector<Word> same;
    for (const Word& w : words)
      if (w.kind == word.kind) same.push_back(w);
    const Word& from = random.pick(same);
    other = text.substr(from.begin, from.size);
  }
  text.replace(word.begin, random.chance(0.03) ? 0 : word.size, other);
}

void edit_lines(std::string& text, Random& random) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  }
  const auto at = [&] { return random.below(static_cast<int64_t>(lines.size())); };
  if (random.chance(0.5))
    std::swap(lines[static_cast<size_t>(at())], lines[static_cast<size_t>(at())]);
  else
    lines.erase(lines.begin() + at());
  text.clear();
  for (const std::string& line : lines) text += line + "\n";
}

void edit_number(Json& json, const std::vector<Json*>& all, Random& random) {
  std::vector<Json*> numbers;
  for (Json* j : all)
    if (j->is_number() && j != &json) numbers.push_back(j);
  if (!numbers.empty() && random.chance(0.3)) {
    json = Json(*random.pick(numbers));
    return;
  }
  const auto value = json.is_number_float() ? 0 : json.get<int64_t>();
  const int64_t less = value < INT64_MIN + 64 ? INT64_MAX : value - 64;
  json = random.pick<int64_t>({0, 1, -1, 2, 64, 128, 4096, value / 2, less, int64_t{1} << 31,
                               int64_t{1} << 40, INT64_MAX, INT64_MIN, value ^ 64});
}

void edit_string(Json& json, const std::vector<Json*>& all, Random& random) {
  std::vector<Json*> strings;
  for (Json* j : all)
    if (j->is_string() && j->get_ref<const std::string&>().size() < 100) strings.push_back(j);
  std::string text = json;
  if (text.find('\n') != text.npos)
    random.chance(0.8) ? edit_text(text, random) : edit_lines(text, random);
  else if (!strings.empty() && random.chance(0.6))
    text = *random.pick(strings);
  else
    edit_text(text, random);
  json = text;
}

void edit_list(Json& json, Random& random) {
  if (json.empty()) {
    json.push_back(random.below(4));
    return;
  }
  const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(json.size())));
  if (random.chance(0.3))
    json.erase(at);
  else if (random.chance(0.5))
    json.push_back(Json(json[at]));
  else
    std::swap(json[at], json[static_cast<size_t>(random.below(static_cast<int64_t>(json.size())))]);
}

void edit_object(Json& json, Random& random) {
  if (json.contains("runner") && random.chance(0.7)) {  // a choice
    if (random.chance(0.5))
      json["view"] = true;
    else
      json["in_place"] = Json::array({random.below(3)});
    return;
  }
  if (json.empty()) return;
  const auto key_at = [&] {
    return std::next(json.begin(), random.below(static_cast<int64_t>(json.size()))).key();
  };
  const std::string a = key_at(), b = key_at();
  if (random.chance(0.2))
    json.erase(a);
  else
    std::swap(json[a], json[b]);
}

void edit_block(Content& content, Random& random) {
  if (content.blocks.empty()) return;
  auto& block = random.pick(content.blocks);
  if (random.chance(0.5))
    block.resize(static_cast<size_t>(random.pick<int64_t>(
        {0, 4, 64, static_cast<int64_t>(block.size() / 2), static_cast<int64_t>(block.size()) + 64})));
  else if (!block.empty())
    block[static_cast<size_t>(random.below(static_cast<int64_t>(block.size())))] ^= std::byte{0x80};
}

void edit(Content& content, Random& random) {
  if (random.chance(0.05)) return edit_block(content, random);
  const auto section = static_cast<size_t>(random.chance(0.75) ? 2 : random.below(2));
  std::vector<Json*> all;
  collect(content.sections[section].second, all);
  Json& json = *random.pick(all);
  if (random.chance(0.01))
    json = random.pick({Json(nullptr), Json(true), Json(1.5), Json("x"), Json::array(), Json::object()});
  else if (json.is_boolean())
    json = !json.get<bool>();
  else if (json.is_number())
    edit_number(json, all, random);
  else if (json.is_string())
    edit_string(json, all, random);
  else if (json.is_array())
    edit_list(json, random);
  else if (json.is_object())
    edit_object(json, random);
}

// Every fifth edit is one of the graph's text, which is one leaf among hundreds.
void edit_graph_text(Content& content, Random& random) {
  if (!content.sections[2].second.is_object()) return;
  Json& variants = content.sections[2].second["variants"];
  if (!variants.is_array() || variants.empty()) return;
  Json& variant = variants[static_cast<size_t>(random.below(static_cast<int64_t>(variants.size())))];
  if (!variant.is_object() || !variant.contains("graph") || !variant["graph"].is_object()) return;
  Json& json = variant["graph"]["text"];
  if (!json.is_string()) return;
  std::string text = json;
  random.chance(0.9) ? edit_text(text, random) : edit_lines(text, random);
  json = text;
}

Outcome run_case(const std::vector<EngineFile>& files, int64_t n, const std::string& keep) {
  Random random(static_cast<uint64_t>(n));
  const EngineFile& file = random.pick(files);
  Content content = decode(file);
  const int64_t edits = random.pick<int64_t>({1, 1, 1, 2, 3});
  for (int64_t i = 0; i < edits; ++i)
    random.chance(0.2) ? edit_graph_text(content, random) : edit(content, random);
  std::vector<std::byte> bytes = encode(content);
  if (!keep.empty()) write_file_atomically(keep, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const auto plan = Plan::from_bytes(std::move(bytes), "edited.engine");
  if (random.chance(0.1)) plan->portable_graph();
  const auto engine = Engine::load(plan, file.backend);
  if (file.backend->is_host()) run_engine(*engine, random);
  return Outcome::Accepted;
}

}  // namespace

Case prepare_engine_edits(const Setup& setup) {
  const auto files = std::make_shared<std::vector<EngineFile>>();
  const std::vector<Source> models = source_models();
  add_cpu_engines(models, setup.threads, *files);
  add_cuda_engines(models, *files);
  return [files, setup](int64_t n) { return run_case(*files, n, setup.keep); };
}

}  // namespace fuzz
