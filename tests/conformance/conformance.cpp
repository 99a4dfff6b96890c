// SPDX-License-Identifier: Apache-2.0
//
// Runs ONNX's node tests: a folder per case with model.onnx and test_data_set_N/{input,output}_N.pb. One
// runner per backend turns a graph and inputs into outputs; the cases, the tolerance and the verdict are the
// same for all.
//
// usage: conformance CASES [--backend NAME] [--cpuIsa NAME] [--only TEXT] [--json FILE] [--write FOLDER]
//                    [--within CASE=NUMBER ...] [--random CASE ...] [--save]
// --within: a case (with '*' at its end all that begin so) is right within that relative difference of each element (ONNX's own
// bound, where expected values are rounded); --random: types and shapes alone are looked at; --save: outputs are not judged but
// written to the case's folder, as BACKEND_0.pb and so on.
// Prints one line per failed case and a summary; the JSON lists every case: name, operators, opset, verdict,
// reason. Exceptions are the caller's business (run.py), so the exit code is 0 unless the folder cannot be
// read.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <span>

#include "base/file.h"
#include "base/json.h"
#include "ir/strings.h"
#include "onnx/import.h"
#include "onnx/message_copy.h"
#include "onnx/model.h"
#include "reference/compare.h"
#include "runners.h"

namespace lathe::conformance {

namespace {

namespace fs = std::filesystem;

struct Verdict {
  // "planned" (for a device that is not there), "passed", "passed frozen" (with shapes, axes or scales as
  // constants), "passed random" (in type and shape), "saved" (and not judged), "failed" (a wrong answer, or a
  // bug of ours), "refused" (an error that says what is not possible), "unsupported" (so said at import)
  std::string result;
  std::string reason;
};

struct CaseInfo {
  std::string name;
  std::set<std::string> operators;
  int64_t opset = 0;
};

struct DataSet {
  std::vector<std::string> names;  // of the inputs, in order
  std::vector<std::string> output_names;
  std::map<std::string, Tensor, std::less<>> inputs;    // by name
  std::map<std::string, int64_t, std::less<>> lengths;  // of inputs that are lists
  std::set<size_t> strings, lists;                      // outputs that are
  std::map<size_t, std::vector<Tensor>> outputs;        // by position; of a list its tensors
};

// input_3.pb, input_3 -> 3
size_t file_number(const fs::path& path) {
  const std::string stem = path.stem().string();
  return std::stoul(stem.substr(stem.find('_') + 1));
}

struct LoadedTensor {
  Tensor tensor;
  bool strings = false;
};

LoadedTensor load_tensor(const fs::path& path) {
  const auto file = MappedFile::open(path);
  const onnx::TensorProto proto = onnx::parse_tensor(file->bytes());
  if (proto.data_type == onnx::kStringType) return {onnx::TensorSource::load_strings(proto), true};
  return {onnx::TensorSource(nullptr, {}).load(proto)};
}

// The tensors in a folder: 0.pb, 1.pb, ...
std::vector<Tensor> load_list(const fs::path& folder) {
  std::vector<Tensor> list;
  for (fs::path file; file = folder / (std::to_string(list.size()) + ".pb"), fs::exists(file);)
    list.push_back(load_tensor(file).tensor);
  return list;
}

DataSet load_data_set(const fs::path& folder, const std::vector<std::string>& input_names,
                      const std::vector<std::string>& output_names) {
  DataSet data{.names = input_names, .output_names = output_names};
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_list = entry.is_directory();
    if (!is_list && entry.path().extension() != ".pb") continue;
    const size_t number = file_number(entry.path());
    const LoadedTensor loaded = is_list ? LoadedTensor() : load_tensor(entry.path());
    const std::vector<Tensor> values = is_list ? load_list(entry.path()) : std::vector<Tensor>{loaded.tensor};
    if (name.starts_with("input_") && number < input_names.size()) {
      const std::string& input = input_names[number];
      if (is_list) data.lengths[input] = static_cast<int64_t>(values.size());
      for (size_t i = 0; i < values.size(); ++i)
        data.inputs[is_list ? input + "_" + std::to_string(i) : input] = values[i];
    }
    if (name.starts_with("output_")) {
      data.outputs[number] = values;
      if (loaded.strings) data.strings.insert(number);
      if (is_list) data.lists.insert(number);
    }
  }
  return data;
}

std::vector<DataSet> load_data_sets(const fs::path& folder) {
  const auto file = MappedFile::open(folder / "model.onnx");
  const onnx::ModelProto proto = onnx::parse_model(file->bytes());
  std::vector<std::string> inputs, outputs;
  for (const onnx::ValueInfo& v : proto.graph.inputs) inputs.emplace_back(v.name);
  for (const onnx::ValueInfo& v : proto.graph.outputs) outputs.emplace_back(v.name);
  std::vector<DataSet> sets;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) sets.push_back(load_data_set(entry.path(), inputs, outputs));
  }
  return sets;
}

// ONNX's own bound for these tests is rtol 1e-3, atol 1e-7 on float32; ours is tighter on the whole tensor
// and follows the type. A quantized result may be off by one where the expected value lies on a rounding
// edge.
double limit_of(DType dtype) {
  switch (dtype) {
    case DType::Float64:
      return 1e-6;  // many of these cases were computed with float32 constants
    case DType::Float32:
      return 2e-5;
    case DType::Float16:
      return 2e-3;
    case DType::BFloat16:
      return 1.6e-2;
    default:
      return 0;
  }
}

// How the outputs of a case are judged, where not by limit_of().
struct Looser {
  double within = 0;    // relative to each expected element, with 1e-7 for those at zero
  bool random = false;  // only types and shapes are to be as expected
  std::string save;     // not here: they are written to files with this name
};

std::string check_each(const Tensor& actual, const Tensor& expected, double within) {
  const std::vector<double> a = actual.to_doubles(), b = expected.to_doubles();
  for (size_t i = 0; i < b.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= 1e-7 + within * std::abs(b[i])))
      return "element " + std::to_string(i) + " is " + std::to_string(a[i]) + " instead of " +
             std::to_string(b[i]);
  return {};
}

std::string check_output(const Tensor& actual, const Tensor& expected, const Looser& looser) {
  if (actual.dtype() != expected.dtype()) {
    return "type " + std::string(dtype_name(actual.dtype())) + " instead of " +
           std::string(dtype_name(expected.dtype()));
  }
  if ((looser.random || looser.within > 0) && actual.extents() != expected.extents())
    return "shape " + to_string(actual.extents()) + " instead of " + to_string(expected.extents());
  if (looser.random) return {};
  if (looser.within > 0) return check_each(actual, expected, looser.within);
  const Comparison c = compare(actual, expected);
  const double limit = limit_of(expected.dtype());
  if (c.within(limit)) return {};
  if (!c.shapes_differ && c.nan_mismatches == 0 && c.infinity_mismatches == 0 &&
      c.max_absolute <= limit * 0.1)
    return {};
  return c.to_string();
}

// The strings of a tensor, and their shape; bytes behind a string's end do not count.
std::string check_strings(const Tensor& actual, const Tensor& expected) {
  if (actual.dtype() != DType::UInt8 || actual.rank() != expected.rank())
    return "it is " + std::string(dtype_name(actual.dtype())) + " " + to_string(actual.extents()) +
           " instead of strings";
  const auto shape = [](const Tensor& t) { return Extents(t.extents().begin(), t.extents().end() - 1); };
  if (shape(actual) != shape(expected))
    return "strings " + to_string(shape(actual)) + " instead of " + to_string(shape(expected));
  const Strings a(actual), b(expected);
  for (int64_t i = 0; i < b.count(); ++i)
    if (a[i] != b[i])
      return "string " + std::to_string(i) + " is '" + std::string(a[i]) + "' instead of '" +
             std::string(b[i]) + "'";
  return {};
}

// Tensors of these extents that lie one behind the other.
std::vector<Tensor> tensors_in(const Tensor& elements, const std::vector<Extents>& all_extents) {
  const std::vector<double> values = elements.to_doubles();
  std::span<const double> rest(values);
  std::vector<Tensor> tensors;
  for (const Extents& extents : all_extents) {
    const auto count = static_cast<size_t>(element_count(extents));
    if (count > rest.size()) throw_input_error("a sequence has fewer elements than its shapes say");
    tensors.push_back(Tensor::from_doubles(elements.dtype(), extents, rest.first(count)));
    rest = rest.subspan(count);
  }
  return tensors;
}

std::vector<Extents> rows_of(const Tensor& shapes) {
  const std::vector<int64_t> dims = shapes.to_int64s();
  std::vector<Extents> rows;
  for (auto row = dims.begin(); row != dims.end(); row += shapes.extents().at(1))
    rows.emplace_back(row, row + shapes.extents()[1]);
  return rows;
}

// What an output of the model is among those of the graph: a tensor, and of a list its tensors
// (onnx/sequences.h).
std::vector<Tensor> output_tensors(const Graph& graph, const std::vector<Tensor>& outputs,
                                   const std::string& name, bool is_list) {
  const auto find = [&](const std::string& wanted) -> const Tensor* {
    for (size_t i = 0; i < graph.outputs().size(); ++i)
      if (graph.value(graph.outputs()[i]).name == wanted) return &outputs.at(i);
    return nullptr;
  };
  const Tensor *whole = find(name), *shapes = find(name + ".shapes");
  if (whole != nullptr && !is_list) return {*whole};
  if (whole != nullptr && shapes != nullptr) return tensors_in(*whole, rows_of(*shapes));
  if (whole != nullptr) {
    const Extents slice(whole->extents().begin() + 1, whole->extents().end());
    return tensors_in(*whole, std::vector<Extents>(static_cast<size_t>(whole->extents()[0]), slice));
  }
  std::vector<Tensor> tensors;
  while (const Tensor* tensor = find(name + "_" + std::to_string(tensors.size()))) tensors.push_back(*tensor);
  return tensors;
}

std::vector<Tensor> run_model(const ImportedModel& model, const DataSet& data, Runner& runner) {
  std::vector<Tensor> inputs;
  for (const ValueId id : model.graph.inputs()) inputs.push_back(data.inputs.at(model.graph.value(id).name));
  return runner.run(model.graph, inputs);
}

void save_outputs(const fs::path& folder, const std::string& name, const std::vector<Tensor>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string number = std::to_string(i);
    write_file_atomically(folder / (name + "_" + number + ".pb"), onnx::tensor_bytes(number, outputs[i]));
  }
}

// Which inputs become constants before the model is imported. Cases have shapes, axes and scales as inputs
// even where the operator only works with constants, or where nothing bounds the result's size. Such a case
// is refused as it is and runs again with less left open; the verdict says so. A wrong answer is never tried
// again.
enum class Fixed { None, BehindFirst, All };

// What the model leaves open of its inputs, and those that look like shapes, axes, sizes or scales as
// constants.
ImportOptions options_for(const DataSet& data, Fixed fixed) {
  ImportOptions options{.input_lengths = data.lengths};
  for (const auto& [name, tensor] : data.inputs) options.input_shapes[name] = tensor.extents();
  for (size_t i = fixed == Fixed::All ? 0 : 1; fixed != Fixed::None && i < data.names.size(); ++i) {
    const auto it = data.inputs.find(data.names[i]);
    if (it != data.inputs.end() && it->second.rank() <= 1 && it->second.size() <= 16)
      options.constant_inputs.insert(*it);
  }
  return options;
}

Verdict run_case(const fs::path& folder, Runner& runner, Fixed fixed, const Looser& looser) {
  NullObserver observer;
  const fs::path file = folder / "model.onnx";
  for (const DataSet& data : load_data_sets(folder)) {
    const ImportedModel model = import_onnx(file, observer, options_for(data, fixed));
    const std::vector<Tensor> outputs = run_model(model, data, runner);
    if (runner.only_plans()) return {"planned", ""};
    if (!looser.save.empty()) {
      save_outputs(folder, looser.save, outputs);
      return {"saved", ""};
    }
    for (const auto& [number, expected] : data.outputs) {
      const std::string name = "output " + std::to_string(number);
      if (number >= data.output_names.size()) return {"failed", name + " is missing"};
      const auto actual =
          output_tensors(model.graph, outputs, data.output_names[number], data.lists.contains(number));
      if (actual.size() != expected.size())
        return {"failed", name + " has " + std::to_string(actual.size()) + " tensors instead of " +
                              std::to_string(expected.size())};
      for (size_t i = 0; i < expected.size(); ++i) {
        const std::string problem = data.strings.contains(number)
                                        ? check_strings(actual[i], expected[i])
                                        : check_output(actual[i], expected[i], looser);
        if (!problem.empty()) return {"failed", name + ": " + problem};
      }
    }
  }
  if (looser.random) return {"passed random", ""};
  return {fixed == Fixed::None ? "passed" : "passed frozen", ""};
}

Verdict judge(const fs::path& folder, Runner& runner, Fixed fixed, const Looser& looser) {
  try {
    return run_case(folder, runner, fixed, looser);
  } catch (const onnx::UnsupportedError& error) {
    return {"unsupported", error.what()};
  } catch (const Error& error) {
    return {error.kind() == ErrorKind::Input ? "refused" : "failed", error.what()};
  } catch (const std::exception& error) {
    return {"failed", error.what()};
  }
}

Verdict judge(const fs::path& folder, Runner& runner, const Looser& looser) {
  const auto is_final = [](const Verdict& verdict) {
    return verdict.result.starts_with("passed") || verdict.result == "saved" || verdict.result == "failed" ||
           verdict.result == "planned";
  };
  const Verdict verdict = judge(folder, runner, Fixed::None, looser);
  if (is_final(verdict)) return verdict;
  for (const Fixed fixed : {Fixed::BehindFirst, Fixed::All}) {
    Verdict again = judge(folder, runner, fixed, looser);
    if (again.result == "passed frozen") again.reason = verdict.reason;
    if (is_final(again)) return again;
  }
  return verdict;
}

void collect_operators(const onnx::GraphProto& graph, std::set<std::string>& operators) {
  for (const onnx::NodeProto& node : graph.nodes) operators.emplace(node.op_type);
}

CaseInfo read_case(const fs::path& folder) {
  CaseInfo info{.name = folder.filename().string()};
  const auto file = MappedFile::open(folder / "model.onnx");
  const onnx::ModelProto model = onnx::parse_model(file->bytes());
  collect_operators(model.graph, info.operators);
  for (const onnx::OpsetId& opset : model.opsets) {
    if (opset.domain.empty()) info.opset = opset.version;
  }
  return info;
}

struct Arguments {
  fs::path cases, json;
  std::string backend = "oracle", cpu_isa, only, write;
  std::vector<std::pair<std::string, Looser>> looser;  // by a case's name, or its front and '*'
  bool save = false;
  Looser looser_of(const std::string& name) const {
    if (save) return {.save = backend};
    for (const auto& [front, how] : looser)
      if (front.ends_with('*') ? name.starts_with(front.substr(0, front.size() - 1)) : name == front)
        return how;
    return {};
  }
};

Arguments parse_arguments(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const auto next = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (text == "--backend") {
      a.backend = next();
    } else if (text == "--cpuIsa") {
      a.cpu_isa = next();
    } else if (text == "--only") {
      a.only = next();
    } else if (text == "--write") {
      a.write = next();
    } else if (text == "--within") {
      const std::string rule = next();
      const size_t equals = rule.find('=');
      if (equals == rule.npos) throw_input_error("--within " + rule + ": expected CASE=NUMBER");
      a.looser.push_back({rule.substr(0, equals), {.within = std::stod(rule.substr(equals + 1))}});
    } else if (text == "--random") {
      a.looser.push_back({next(), {.random = true}});
    } else if (text == "--save") {
      a.save = true;
    } else if (text == "--json") {
      a.json = next();
    } else {
      a.cases = text;
    }
  }
  if (a.cases.empty())
    throw_input_error(
        "usage: conformance CASES [--backend NAME] [--cpuIsa NAME] [--only TEXT] [--json FILE] "
        "[--write FOLDER] [--save]");
  return a;
}

std::vector<fs::path> list_cases(const Arguments& a) {
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(a.cases)) {
    if (entry.path().filename().string().find(a.only) == std::string::npos) continue;
    if (fs::exists(entry.path() / "model.onnx")) cases.push_back(entry.path());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

void run_all(const Arguments& a) {
  const std::unique_ptr<Runner> runner = make_runner(a.backend, a.cpu_isa, a.write);
  std::map<std::string, int> counts;
  Json list = Json::array();
  for (const fs::path& folder : list_cases(a)) {
    const CaseInfo info = read_case(folder);
    const Verdict verdict = judge(folder, *runner, a.looser_of(info.name));
    ++counts[verdict.result];
    if (verdict.result == "failed" || verdict.result == "refused")
      std::cout << "failed " << info.name << ": " << verdict.reason << "\n";
    Json fallbacks = Json::array(), reasons = Json::array();
    if (verdict.result == "planned" || verdict.result.starts_with("passed"))
      for (const Fallback& fallback : runner->fallbacks()) {
        fallbacks.push_back(fallback.op);
        reasons.push_back(fallback.reason);
      }
    list.push_back({{"name", info.name},
                    {"operators", info.operators},
                    {"opset", info.opset},
                    {"result", verdict.result},
                    {"reason", verdict.reason},
                    {"fallbacks", std::move(fallbacks)},
                    {"fallback_reasons", std::move(reasons)}});
  }
  std::cout << a.backend << " on " << a.cases.string() << ": " << counts["passed"] << " passed, "
            << counts["passed frozen"] << " passed with constants, " << counts["passed random"]
            << " passed in type and shape, " << counts["failed"] + counts["refused"] << " failed, "
            << counts["unsupported"] << " not supported, " << counts["planned"] << " only planned\n";
  if (!a.json.empty()) write_file_atomically(a.json, dump_json(list));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run_all(parse_arguments(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

}  // namespace lathe::conformance

int main(int argc, char** argv) {
  return lathe::conformance::main(argc, argv);
}
