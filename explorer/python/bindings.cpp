// SPDX-License-Identifier: Apache-2.0
//
// The core for Python: files in, one Analysis out, every view of it as text. No logic of its own; frames and
// plots are made in Python from analysis.json.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/error.h"
#include "base/json.h"
#include "explorer/core/analyse.h"
#include "explorer/core/analysis_json.h"
#include "explorer/core/graph_picture.h"
#include "explorer/core/tensor_words.h"
#include "explorer/core/text.h"

namespace nb = nanobind;
namespace ex = lathe::explorer;

namespace {

using File = std::pair<std::string, std::string>;  // name, contents

void compare(ex::Analysis& analysis, const std::string& fail_if) {
  if (analysis.engines.size() < 2) return;
  analysis.comparison = ex::compare_engines(analysis.engines);
  if (!fail_if.empty()) ex::apply_fail_if(*analysis.comparison, analysis.engines, fail_if);
}

ex::Analysis analyse(const std::vector<std::vector<File>>& engines, const std::vector<std::string>& names,
                     const std::map<std::string, double>& peaks, std::optional<int> shape_profile,
                     const std::string& fail_if) {
  ex::Analysis analysis;
  ex::AnalysisOptions options;
  options.shape_profile = shape_profile;
  for (const auto& [name, value] : peaks) {
    options.peaks.source = "given";
    if (name == "memory") {
      options.peaks.bytes_per_s = value;
    } else if (name == "launch_ms") {
      options.peaks.launch_ms = value;
    } else {
      options.peaks.flops_per_s[name] = value;
    }
  }
  for (const auto& files : engines) {
    std::vector<ex::InputFile> inputs;
    for (const auto& [name, text] : files) inputs.push_back(ex::recognise_file(name, text));
    const size_t index = analysis.engines.size();
    options.name = index < names.size() ? names[index] : "";
    analysis.engines.push_back(ex::analyse_engine(inputs, options));
  }
  compare(analysis, fail_if);
  return analysis;
}

ex::Analysis join(const std::vector<const ex::Analysis*>& parts, const std::string& fail_if) {
  ex::Analysis analysis;
  for (const auto* part : parts)
    analysis.engines.insert(analysis.engines.end(), part->engines.begin(), part->engines.end());
  compare(analysis, fail_if);
  return analysis;
}

// The layer objects of a layer file as they stand in it, constants and no-ops included.
std::string layer_objects(const std::string& name, const std::string& text) {
  const auto file = ex::recognise_file(name, text);
  if (file.kind != ex::FileKind::Layers) lathe::throw_input_error(name + ": this is no layer information");
  const lathe::Json& json = *file.json;
  return lathe::dump_json(json.is_array() ? json : json["Layers"], -1);
}

// Whether a file says something of an engine; an archive holds others, too.
bool is_known(const std::string& name, const std::string& text) {
  try {
    ex::recognise_file(name, text);
    return true;
  } catch (const lathe::Error&) {
    return false;
  }
}

// What trex's metadata files hold, figures as numbers.
std::string metadata(const ex::EngineData& engine) {
  ex::LogFile log;
  log.sections = {{"Model Options", engine.model_options},
                  {"Build Options", engine.build_options},
                  {"Inference Options", engine.inference_options},
                  {"Device Information", engine.device.properties},
                  {"Performance summary", engine.statistics.summary}};
  auto json = ex::profile_metadata(log);
  json.update(ex::build_metadata(log));
  return lathe::dump_json(json, -1);
}

std::vector<int> file_positions(const ex::EngineData& engine) {
  std::vector<int> positions;
  for (const auto& layer : engine.layers) positions.push_back(layer.file_position);
  return positions;
}

const ex::EngineData& engine_at(const ex::Analysis& analysis, size_t index) {
  if (index >= analysis.engines.size()) throw nb::index_error("there is no engine with this number");
  return analysis.engines[index];
}

}  // namespace

NB_MODULE(_core, m) {
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void*) {
        try {
          std::rethrow_exception(pointer);
        } catch (const lathe::Error& error) {
          PyErr_SetString(error.kind() == lathe::ErrorKind::Input ? PyExc_ValueError : PyExc_RuntimeError,
                          error.what());
        }
      },
      nullptr);
  nb::class_<ex::Analysis>(m, "Analysis")
      .def("json", [](const ex::Analysis& a) { return lathe::dump_json(ex::analysis_json(a)); })
      .def("text", [](const ex::Analysis& a) { return ex::summary_text(a, false); })
      .def("markdown", [](const ex::Analysis& a) { return ex::summary_markdown(a); })
      .def("junit", [](const ex::Analysis& a) { return ex::summary_junit(a); })
      .def("dot", [](const ex::Analysis& a, size_t engine) { return ex::graph_dot(engine_at(a, engine)); })
      .def("svg", [](const ex::Analysis& a, size_t engine) { return ex::graph_svg(engine_at(a, engine)); })
      .def("metadata", [](const ex::Analysis& a, size_t engine) { return metadata(engine_at(a, engine)); })
      .def("file_positions",
           [](const ex::Analysis& a, size_t engine) { return file_positions(engine_at(a, engine)); });
  m.def("analyse", &analyse, nb::arg("engines"), nb::arg("names"), nb::arg("peaks"),
        nb::arg("shape_profile").none(), nb::arg("fail_if"));
  m.def("join", &join, nb::arg("parts"), nb::arg("fail_if") = "");
  m.def("is_known", &is_known, nb::arg("name"), nb::arg("text"));
  m.def("layer_objects", &layer_objects, nb::arg("name"), nb::arg("text"));
  m.def(
      "element_type", [](const std::string& words) { return ex::element_type(words); }, nb::arg("words"));
  m.def(
      "element_bits", [](const std::string& type) { return ex::element_bits(type); }, nb::arg("type"));
  m.def(
      "tensor_bytes",
      [](const ex::Shape& shape, const std::string& type, const std::string& format) {
        return ex::tensor_bytes(shape, type, format);
      },
      nb::arg("shape"), nb::arg("type"), nb::arg("format"));
}
