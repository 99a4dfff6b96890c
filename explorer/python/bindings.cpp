// SPDX-License-Identifier: Apache-2.0
//
// The core for Python: files in, one Analysis out, every view of it as text. No logic of its own; frames and plots are made
// in Python from analysis.json.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/error.h"
#include "explorer/core/analyse.h"
#include "explorer/core/analysis_json.h"
#include "explorer/core/graph_picture.h"
#include "explorer/core/text.h"

namespace nb = nanobind;
namespace ex = lathe::explorer;

namespace {

using File = std::pair<std::string, std::string>;  // name, contents

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
  if (analysis.engines.size() > 1) analysis.comparison = ex::compare_engines(analysis.engines);
  if (!fail_if.empty() && analysis.comparison)
    ex::apply_fail_if(*analysis.comparison, analysis.engines, fail_if);
  return analysis;
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
      .def("svg", [](const ex::Analysis& a, size_t engine) { return ex::graph_svg(engine_at(a, engine)); });
  m.def("analyse", &analyse, nb::arg("engines"), nb::arg("names"), nb::arg("peaks"),
        nb::arg("shape_profile").none(), nb::arg("fail_if"));
}
