// SPDX-License-Identifier: Apache-2.0
//
// trtexec: options, engine, run, reports, in the order and with the lines of TensorRT 10.4.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "arguments/arguments.h"
#include "arguments/flag.h"
#include "arguments/options.h"
#include "banner.h"
#include "base/interrupted.h"
#include "base/version.h"
#include "commands.h"
#include "engine_report.h"
#include "engine_setup.h"
#include "failure.h"
#include "inference_run.h"
#include "output_file.h"
#include "passes/catalogue.h"

namespace lathe::cli {
namespace {

std::string banner(const std::string& result, const std::string& program, const Words& words) {
  std::string line =
      fmt::format("&&&& {} TensorRT.trtexec [Lathe v{}] # {}", result, version_digits(), program);
  for (const auto& word : words) line += " " + word;
  return line;
}

void print_failure(Log& log, const Failure& failure) {
  for (const auto& line : failure.lines()) {
    line.from_library ? log.library(Severity::Error, line.text) : log.error(line.text);
  }
}

void print_device(Log& log, const Backend& backend) {
  log.info("=== Device Information ===");
  for (const auto& [key, value] : backend.device_information()) log.info(key + ": " + value);
  log.info("");
  log.info(
      "Note: The application clock rates do not reflect the actual clock rates that the GPU is currently "
      "running at.");
  log.info("");
  log.info(fmt::format("Lathe version: {}", version()));
}

// --getPlanVersionOnly: the version that wrote a plan.
void print_plan_version(Log& log, const std::string& file) {
  try {
    log.info(fmt::format("Plan was created with Lathe version {}", Plan::read(file)->lathe_version));
  } catch (const std::exception& error) {
    fail(error, {"Failed to get the version of the plan"});
  }
}

// What cannot be written is better said before the build than after it.
void check_file(const std::string& file, WriteMode mode, const std::vector<std::string>& phrases = {}) {
  const std::string reason = why_unwritable(file, mode);
  if (reason.empty()) return;
  std::vector<std::string> lines{reason};
  lines.insert(lines.end(), phrases.begin(), phrases.end());
  fail(lines);
}

void check_output_files(const Options& options) {
  check_file(options.build.save_engine, WriteMode::Replace, {"Saving engine to file failed."});
  // A cache that exists may be shared for reading; the build warns when it had something to add.
  const std::string& cache = options.build.timing_cache_file;
  if (options.build.load_engine.empty() && !std::filesystem::is_regular_file(cache))
    check_file(cache, WriteMode::Replace);
  const auto& reporting = options.reporting;
  for (const auto& file : {reporting.export_times, reporting.export_output, reporting.export_profile,
                           reporting.export_layer_info, reporting.export_summary})
    check_file(file, WriteMode::InPlace);
}

void run(Options& options, std::shared_ptr<const Backend> backend, std::shared_ptr<plugin::Registry> plugins,
         MemoryUse& memory, Log& log) {
  if (options.build.plan_version_only && !options.build.load_engine.empty()) {
    return print_plan_version(log, options.build.load_engine);
  }
  check_output_files(options);
  if (options.inference.time_deserialize)
    return time_deserialization(options, std::move(backend), std::move(plugins), memory, log);
  const auto [engine, budget] = set_up_engine(options, std::move(backend), std::move(plugins), memory, log);
  if (options.build.skip_inference) {
    report_engine(options, *engine, nullptr, log);
    log.info("Skipped inference phase since --skipInference is added.");
    return;
  }
  run_inference(options, engine, budget, memory, log);
}

// Opens the device, or says in trtexec's words that there is none.
std::shared_ptr<const Backend> open_or_complain(const SystemFlags& system, bool tf32, Log& log) {
  try {
    return open_device(system, tf32);
  } catch (const Error& error) {
    const bool asks_for_gpu = !system.device.empty() && system.device != "cpu" && system.device != "auto";
    if (!asks_for_gpu) throw;
    log.plain_error(std::string("Cannot find any available devices (GPUs)! ") + error.what());
    return nullptr;
  }
}

// A hundred lines of help would push the error off the screen: one line says where they are, and the error is
// the last.
void print_usage_error(Log& log, const std::string& program, const std::string& text) {
  log.plain(fmt::format("All options: {} --help", program));
  bool first = true;
  for (const auto& line : split_list(text, '\n')) {
    log.error(line.substr(first ? 0 : 2));  // entries of a list stand behind two blanks
    first = false;
  }
}

// --disablePass=help
std::string pass_table() {
  std::string text =
      "--disablePass=NAME,... leaves passes of the optimiser out. In the order in which they run:\n";
  for (const PassInfo& pass : pass_catalogue())
    text +=
        fmt::format("  {:<29} {}{}\n", pass.name, pass.does, pass.is_optional ? ", where it is faster" : "");
  return text;
}

int run_logged(const std::string& program, const Words& words, Log& log) {
  log.plain(banner("RUNNING", program, words));
  const auto passed = [&] {
    log.plain(banner("PASSED", program, words));
    return 0;
  };
  const auto failed = [&] {
    log.set_status("");
    log.plain(banner("FAILED", program, words));
    return 1;
  };
  if (words.empty()) {
    log.plain(help_text());
    return passed();
  }
  Options options;
  try {
    options = parse_options(words);
  } catch (const NumberError& error) {
    print_usage_error(log, program, trtexec_text(error));
    return failed();
  } catch (const Error& error) {
    print_usage_error(log, program, error.what());
    return failed();
  }
  if (options.help) {
    log.plain(help_text());
    return 0;
  }
  if (options.build.disabled_passes.contains("help")) {
    log.plain(pass_table());
    return passed();
  }
  for (const auto& notice : options.notices) log.line(notice.severity, notice.text);
  for (const auto& refusal : options.refusals) log.error(refusal);
  if (!options.refusals.empty()) return failed();
  print_option_banner(log, options);
  log.set_verbose(options.reporting.verbose);
  try {
    MemoryUse memory(log);
    const auto backend = open_or_complain(options.system, options.build.tf32, log);
    if (backend == nullptr) return 1;
    print_device(log, *backend);
    const auto plugins = open_plugins(options.system, &log, options.build.plugins_to_serialize);
    memory.watch(backend.get());
    memory.step(backend->is_host() ? "Init CPU" : "Init CUDA");
    run(options, backend, plugins, memory, log);
  } catch (const Interrupted&) {
    log.set_status("");
    log.warning("Interrupted.");
    return failed();
  } catch (const Failure& failure) {
    print_failure(log, failure);
    return failed();
  } catch (const Error& error) {
    log.error(error.what());
    return failed();
  } catch (const std::bad_alloc&) {
    log.error("Out of memory: the model needs more than this machine (or its limit) gives");
    return failed();
  } catch (const std::exception& error) {
    log.error("Uncaught exception detected: " + text_of(error));
    return failed();
  }
  return passed();
}

}  // namespace

int run_trtexec(const std::string& program, const Words& words) {
  const auto given = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (given("--version")) {
    fmt::print("lathe trtexec {}\n", version());
    return 0;
  }
  // Verbose lines say enough, and would chase a progress line down the screen.
  Log log(stdout, stderr, given("--verbose") ? nullptr : stderr);
  return run_logged(program, words, log);
}

int run_trtexec(const std::string& program, const Words& words, std::FILE* log_file) {
  Log log(log_file, log_file, stderr);
  return run_logged(program, words, log);
}

}  // namespace lathe::cli
