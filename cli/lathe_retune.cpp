// SPDX-License-Identifier: Apache-2.0
//
// `lathe retune`: times the tactics of an engine anew, for this machine, from the portable graph in the file.
#include <fmt/format.h>

#include "arguments/options.h"
#include "arguments/words.h"
#include "builder/builder.h"
#include "commands.h"
#include "engine_setup.h"
#include "report/build_log.h"

namespace lathe::cli {

int run_retune(const Words& words) {
  const CommandWords arguments(words, command_syntax("retune"));
  const std::string output = arguments.value("-o");
  if (arguments.positional().size() != 1 || output.empty())
    throw_input_error("retune takes an engine and -o: lathe retune old.engine -o new.engine");
  const std::string input = arguments.positional()[0];
  Words flags = arguments.passed();
  flags.push_back("--onnx=" + input);  // the parser wants a model; the graph comes from the engine
  const Options options = parse_options(flags);
  if (!options.refusals.empty()) throw_input_error(options.refusals.front());

  Log log(stdout, stderr, options.reporting.verbose ? nullptr : stderr);
  for (const auto& notice : options.notices) log.line(notice.severity, notice.text);
  log.set_verbose(options.reporting.verbose);
  BuildLog observer(log);
  Builder builder(open_device(options.system, options.build.tf32), observer);
  const auto engine = builder.retune(*Plan::read(input), make_build_options(options, {}, log));
  log.set_status("");
  engine->save(output);
  log.info(fmt::format("Wrote {}, timed for {}", output, engine->backend()->target().description));
  return 0;
}

}  // namespace lathe::cli
