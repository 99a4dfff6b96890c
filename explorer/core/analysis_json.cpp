// SPDX-License-Identifier: Apache-2.0
#include "explorer/core/analysis_json.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "base/version.h"

namespace lathe::explorer {
namespace {

template <class T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// A finite number, else null: strict JSON has nothing else.
Json maybe(const std::optional<double>& value) {
  return value_or_null(value);
}
Json maybe(const std::optional<int64_t>& value) {
  return value_or_null(value);
}
Json maybe(const std::optional<int>& value) {
  return value_or_null(value);
}

// Whole numbers as such: 231211008 rather than 231211008.0.
Json count(const std::optional<double>& value) {
  if (!value) return nullptr;
  if (*value >= 0 && *value < 9e15 && *value == static_cast<double>(static_cast<int64_t>(*value)))
    return static_cast<int64_t>(*value);
  return *value;
}

template <class Items, class Write>
Json list(const Items& items, Write write) {
  Json result = Json::array();
  for (const auto& item : items) result.push_back(write(item));
  return result;
}

Json texts_json(const Texts& texts) {
  Json json = Json::object();
  for (const auto& [key, value] : texts) json[key] = value;
  return json;
}

Json note_json(const Note& note) {
  Json json = {{"severity", note.severity}, {"text", note.text}};
  if (!note.layers.empty()) json["layers"] = note.layers;
  return json;
}

Json series_json(const std::optional<Series>& series) {
  if (!series) return nullptr;
  Json json = {{"count", series->count},
               {"min_ms", series->min_ms},
               {"max_ms", series->max_ms},
               {"mean_ms", series->mean_ms},
               {"median_ms", series->median_ms}};
  if (series->p90_ms) json["p90_ms"] = *series->p90_ms;
  if (series->p95_ms) json["p95_ms"] = *series->p95_ms;
  if (series->p99_ms) json["p99_ms"] = *series->p99_ms;
  if (series->variation_percent) json["variation_percent"] = *series->variation_percent;
  return json;
}

Json statistics_json(const Statistics& s) {
  return {{"layer_count", s.layer_count},
          {"profile_iterations", maybe(s.profile_iterations)},
          {"layer_sum_ms", maybe(s.layer_sum_ms)},
          {"layer_median_sum_ms", maybe(s.layer_median_sum_ms)},
          {"engine_latency_ms", maybe(s.engine_latency_ms)},
          {"engine_latency_source", s.engine_latency_source},
          {"gap_ms", maybe(s.gap_ms)},
          {"gap_median_ms", maybe(s.gap_median_ms)},
          {"gap_text", s.gap_text},
          {"gap_parts", list(s.gap_parts,
                             [](const GapPart& p) {
                               return Json{{"name", p.name}, {"ms", p.ms}, {"text", p.text}};
                             })},
          {"latency", series_json(s.latency)},
          {"compute", series_json(s.compute)},
          {"h2d", series_json(s.h2d)},
          {"d2h", series_json(s.d2h)},
          {"enqueue", series_json(s.enqueue)},
          {"throughput_qps", maybe(s.throughput_qps)},
          {"flops", count(s.flops)},
          {"bytes", count(s.bytes)},
          {"weights_bytes", s.weights_bytes},
          {"activation_bytes", s.activation_bytes},
          {"peak_memory_bytes", s.peak_memory_bytes},
          {"overhead_ms", maybe(s.overhead_ms)},
          {"summary", texts_json(s.summary)}};
}

Json use_json(const TensorUse& use) {
  return {{"tensor", use.tensor},      {"shape", use.shape},
          {"type", use.type},          {"format", use.format},
          {"bytes", maybe(use.bytes)}, {"role", use.is_weights ? "weights" : "activation"}};
}

Json origin_json(const LayerOrigin& origin) {
  Json json = {{"name", origin.name},
               {"op_type", origin.op_type},
               {"flops", count(origin.flops)},
               {"bytes", maybe(origin.bytes)}};
  if (origin.saved_bytes) json["saved_bytes"] = *origin.saved_bytes;
  return json;
}

Json time_json(const std::optional<LayerTime>& time) {
  if (!time) return nullptr;
  Json json = {{"average_ms", time->average_ms},
               {"median_ms", maybe(time->median_ms)},
               {"total_ms", maybe(time->total_ms)},
               {"percent", maybe(time->percent)},
               {"start_ms", time->start_ms}};
  if (time->min_ms) json["min_ms"] = *time->min_ms;
  if (time->p99_ms) json["p99_ms"] = *time->p99_ms;
  if (time->noise_percent) json["noise_percent"] = *time->noise_percent;
  return json;
}

Json roofline_json(const Roofline& roof) {
  return {{"verdict", roof.verdict},
          {"precision", roof.precision},
          {"roof_ms", maybe(roof.roof_ms)},
          {"percent_of_roof", maybe(roof.percent_of_roof)},
          {"flops_per_s", maybe(roof.flops_per_s)},
          {"bytes_per_s", maybe(roof.bytes_per_s)},
          {"recoverable_ms", maybe(roof.recoverable_ms)}};
}

Json error_json(const std::optional<LayerError>& error) {
  if (!error) return nullptr;
  return {{"local", maybe(error->local)},
          {"accumulated", maybe(error->accumulated)},
          {"limit", maybe(error->limit)},
          {"text", error->text}};
}

Json tuning_json(const Tuning& tuning) {
  return {{"timed", list(tuning.timed,
                         [](const TimedTactic& t) {
                           return Json{{"name", t.name},
                                       {"runner", t.runner},
                                       {"types", t.types},
                                       {"ms", maybe(t.ms)},
                                       {"chosen", t.chosen}};
                         })},
          {"refused", list(tuning.refused,
                           [](const RefusedTactic& t) {
                             return Json{{"name", t.name}, {"runner", t.runner}, {"reason", t.reason}};
                           })},
          {"left_out", tuning.left_out}};
}

Json layer_json(const Layer& layer) {
  const auto bytes = layer.bytes();
  return {{"index", layer.index},
          {"name", layer.name},
          {"label", layer.label},
          {"fallback", layer.fallback},
          {"tuning", layer.tuning ? tuning_json(*layer.tuning) : Json(nullptr)},
          {"type", layer.type},
          {"runner", layer.runner},
          {"tactic", layer.tactic},
          {"tactic_id", layer.tactic_id},
          {"precision", layer.precision},
          {"input_precision", layer.input_precision},
          {"output_precision", layer.output_precision},
          {"kind", layer.kind},
          {"origins", list(layer.origins, origin_json)},
          {"inputs", list(layer.inputs, use_json)},
          {"outputs", list(layer.outputs, use_json)},
          {"time", time_json(layer.time)},
          {"flops", count(layer.flops)},
          {"flops_source", layer.flops_source},
          {"bytes_read", maybe(layer.bytes_read)},
          {"bytes_written", maybe(layer.bytes_written)},
          {"weights_bytes", layer.weights_bytes},
          {"intensity", layer.flops && bytes && *bytes > 0 ? Json(*layer.flops / *bytes) : Json(nullptr)},
          {"roofline", roofline_json(layer.roofline)},
          {"stream", layer.stream},
          {"error", error_json(layer.error)},
          {"attributes", *layer.attributes}};
}

Json tensor_json(const Tensor& tensor) {
  return {{"name", tensor.name},
          {"shape", tensor.shape},
          {"type", tensor.type},
          {"format", tensor.format},
          {"bytes", maybe(tensor.bytes)},
          {"role", tensor.role},
          {"producers", tensor.producers},
          {"consumers", tensor.consumers},
          {"first", tensor.first},
          {"last", tensor.last},
          {"alias_of", maybe(tensor.alias_of)},
          {"offset", maybe(tensor.offset)}};
}

Json binding_json(const Binding& binding) {
  return {{"name", binding.name},
          {"io", binding.io},
          {"tensor", maybe(binding.tensor)},
          {"shape", binding.shape},
          {"type", binding.type},
          {"format", binding.format},
          {"bytes", maybe(binding.bytes)},
          {"profiles", list(binding.profiles, [](const ShapeProfile& p) {
             return Json{{"min", p.min}, {"opt", p.opt}, {"max", p.max}};
           })}};
}

Json group_json(const Group& group) {
  return {{"key", group.key},
          {"count", group.layers.size()},
          {"time_ms", maybe(group.time_ms)},
          {"percent", maybe(group.percent)},
          {"flops", count(group.flops)},
          {"bytes", count(group.bytes)},
          {"layers", group.layers}};
}

Json finding_json(const Finding& finding) {
  return {{"id", finding.id},
          {"title", finding.title},
          {"severity", finding.severity},
          {"confidence", finding.confidence},
          {"evidence", finding.evidence},
          {"layers", finding.layers},
          {"gain_ms", maybe(finding.gain_ms)},
          {"gain_basis", finding.gain_basis},
          {"action", finding.action},
          {"command", finding.command}};
}

Json iterations_json(const std::optional<Iterations>& iterations) {
  if (!iterations) return nullptr;
  return {{"latency_ms", iterations->latency_ms},
          {"compute_ms", iterations->compute_ms},
          {"start_ms", iterations->start_ms}};
}

// A layer without times has 0 in every run.
Json layer_runs_json(const EngineData& engine) {
  if (!engine.layer_runs) return nullptr;
  Json times = Json::array();
  for (size_t run = 0; run < engine.layer_runs->numbers.size(); ++run) {
    Json row = Json::array();
    for (const auto& layer : engine.layers)
      row.push_back(run < layer.runs_ms.size() ? layer.runs_ms[run] : 0.0);
    times.push_back(std::move(row));
  }
  return {{"count", engine.layer_runs->count},
          {"numbers", engine.layer_runs->numbers},
          {"times_ms", std::move(times)}};
}

Json onnx_json(const std::optional<OnnxModel>& model) {
  if (!model) return nullptr;
  Json fates = Json::object();
  for (const auto& [fate, number] : model->fates) fates[fate] = number;
  return {{"file", model->file},
          {"name", model->name},
          {"producer", model->producer},
          {"opset", model->opset},
          {"note", model->note},
          {"text", model->text},
          {"fates", std::move(fates)},
          {"own_layers", model->own_layers},
          {"nodes", list(model->nodes,
                         [](const OnnxNode& n) {
                           return Json{
                               {"name", n.name},     {"op_type", n.op_type}, {"domain", n.domain},
                               {"inputs", n.inputs}, {"outputs", n.outputs}, {"layers", n.layers},
                               {"fate", n.fate},     {"why", n.why},         {"attributes", *n.attributes}};
                         })},
          {"tensors", list(model->tensors, [](const OnnxTensor& t) {
             return Json{{"name", t.name},
                         {"type", t.type},
                         {"shape", *t.shape},
                         {"bytes", maybe(t.bytes)},
                         {"role", t.role}};
           })}};
}

Json engine_json(const EngineData& engine) {
  Json json;
  json["name"] = engine.name;
  json["sources"] = list(engine.sources, [](const Source& s) {
    return Json{{"role", s.role}, {"file", s.file}, {"dialect", s.dialect}};
  });
  json["notes"] = list(engine.notes, note_json);
  json["model"] = {{"name", engine.model_name},
                   {"file", engine.model_file},
                   {"options", texts_json(engine.model_options)}};
  json["build_options"] = texts_json(engine.build_options);
  json["inference_options"] = texts_json(engine.inference_options);
  json["device"] = {{"name", engine.device.name},
                    {"kind", engine.device.kind},
                    {"properties", texts_json(engine.device.properties)}};
  json["hardware_state"] = {{"text", engine.hardware_text},
                            {"samples", list(engine.hardware_samples, sample_json)}};
  json["peaks"] = {{"source", engine.peaks.source},
                   {"flops_per_s", engine.peaks.flops_per_s},
                   {"bytes_per_s", maybe(engine.peaks.bytes_per_s)},
                   {"launch_ms", engine.peaks.launch_ms},
                   {"unstable", engine.peaks.unstable}};
  json["measurement"] = {{"usable", engine.measurement.usable},
                         {"reasons", engine.measurement.reasons},
                         {"text", engine.measurement.text}};
  json["context"] = {{"device", engine.context.device}, {"threads", engine.context.threads},
                     {"shapes", engine.context.shapes}, {"precision", engine.context.precision},
                     {"date", engine.context.date},     {"version", engine.context.version}};
  json["statistics"] = statistics_json(engine.statistics);
  json["bindings"] = list(engine.bindings, binding_json);
  json["layers"] = list(engine.layers, layer_json);
  json["tensors"] = list(engine.tensors, tensor_json);
  json["edges"] = list(engine.edges, [](const Edge& e) {
    return Json{{"from", maybe(e.from)}, {"to", maybe(e.to)}, {"tensor", e.tensor}};
  });
  json["groups"] = {{"by_type", list(engine.groups.by_type, group_json)},
                    {"by_precision", list(engine.groups.by_precision, group_json)},
                    {"by_output_precision", list(engine.groups.by_output_precision, group_json)},
                    {"by_tactic", list(engine.groups.by_tactic, group_json)},
                    {"by_stream", list(engine.groups.by_stream, group_json)}};
  json["memory"] = {{"steps", engine.memory.steps},
                    {"peak_bytes", engine.memory.peak_bytes},
                    {"peak_layer", maybe(engine.memory.peak_layer)},
                    {"peak_tensors", engine.memory.peak_tensors},
                    {"weights_bytes", engine.memory.weights_bytes},
                    {"arena_bytes", maybe(engine.memory.arena_bytes)},
                    {"note", engine.memory.note}};
  json["iterations"] = iterations_json(engine.iterations);
  json["layer_runs"] = layer_runs_json(engine);
  json["findings"] = list(engine.findings, finding_json);
  json["onnx"] = onnx_json(engine.onnx);
  return json;
}

Json row_json(const MatchedRow& row, size_t id) {
  return {{"id", id},
          {"match", row.match},
          {"label", row.label},
          {"origins", row.origins},
          {"baseline_layers", row.baseline_layers},
          {"candidate_layers", row.candidate_layers},
          {"baseline_ms", maybe(row.baseline_ms)},
          {"candidate_ms", maybe(row.candidate_ms)},
          {"delta_ms", maybe(row.delta_ms)},
          {"status", row.status},
          {"fusion", row.fusion},
          {"baseline_precision", row.baseline_precision},
          {"candidate_precision", row.candidate_precision},
          {"precision_changed", row.precision_changed},
          {"tactic_changed", row.tactic_changed}};
}

Json waterfall_json(const WaterfallItem& item) {
  return {{"label", item.label}, {"delta_ms", item.delta_ms}, {"rows", item.rows}};
}

Json fusion_json(const FusionChange& change) {
  return {{"row", change.row}, {"nodes", change.nodes}, {"layers", change.layers}, {"text", change.text}};
}

Json latency_json(const std::optional<LatencyChange>& change) {
  if (!change) return nullptr;
  return {{"metric", change->metric},
          {"baseline_ms", change->baseline_ms},
          {"candidate_ms", change->candidate_ms},
          {"change_percent", change->change_percent},
          {"low_percent", maybe(change->low_percent)},
          {"high_percent", maybe(change->high_percent)},
          {"samples", change->samples},
          {"significant", change->significant},
          {"method", change->method}};
}

Json pair_json(const EnginePair& pair) {
  Json rows = Json::array();
  for (size_t i = 0; i < pair.rows.size(); ++i) rows.push_back(row_json(pair.rows[i], i));
  return {{"baseline", pair.baseline},
          {"candidate", pair.candidate},
          {"rows", std::move(rows)},
          {"baseline_sum_ms", maybe(pair.baseline_sum_ms)},
          {"candidate_sum_ms", maybe(pair.candidate_sum_ms)},
          {"delta_ms", maybe(pair.delta_ms)},
          {"waterfall", list(pair.waterfall, waterfall_json)},
          {"waterfall_by_type", list(pair.waterfall_by_type, waterfall_json)},
          {"latency", latency_json(pair.latency)},
          {"fusions_lost", list(pair.fusions_lost, fusion_json)},
          {"fusions_new", list(pair.fusions_new, fusion_json)},
          {"precision_changes", pair.precision_changes},
          {"tactic_changes", pair.tactic_changes},
          {"noise_percent", pair.noise_percent},
          {"notes", list(pair.notes, note_json)}};
}

Json comparison_json(const std::optional<Comparison>& comparison) {
  if (!comparison) return nullptr;
  return {{"pairs", list(comparison->pairs, pair_json)},
          {"checks",
           list(comparison->checks,
                [](const FailCheck& c) {
                  return Json{
                      {"expression", c.expression}, {"failed", c.failed}, {"text", c.text}, {"pair", c.pair}};
                })},
          {"failed", comparison->failed}};
}

}  // namespace

Json sample_json(const HardwareSample& sample) {
  return {{"at_ms", sample.at_ms},
          {"core_mhz", maybe(sample.core_mhz)},
          {"memory_mhz", maybe(sample.memory_mhz)},
          {"temperature_c", maybe(sample.temperature_c)},
          {"power_w", maybe(sample.power_w)},
          {"others_percent", maybe(sample.others_percent)},
          {"throttled", sample.throttled ? Json(*sample.throttled) : Json(nullptr)}};
}

Json analysis_json(const Analysis& analysis) {
  return {{"schema", "lathe-analysis"},
          {"schema_version", "1.3"},
          {"generator", fmt::format("lathe {}", version())},
          {"engines", list(analysis.engines, engine_json)},
          {"comparison", comparison_json(analysis.comparison)}};
}

}  // namespace lathe::explorer
