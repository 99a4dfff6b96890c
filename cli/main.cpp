// SPDX-License-Identifier: Apache-2.0
//
// One binary, two names: called trtexec it takes TensorRT's command line, called lathe it has commands of its
// own (`lathe trtexec ...` is the same as trtexec). The one place that turns exceptions into messages and
// exit codes.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <new>
#include <utility>

#include "arguments/command_table.h"
#include "base/error.h"
#include "base/interrupted.h"
#include "base/printable.h"
#include "base/version.h"
#include "commands.h"
#include "failure.h"
#include "interrupt.h"

namespace lathe::cli {
namespace {

using Program = int (*)(const Words&);

Program program_of(std::string_view command) {
  constexpr std::pair<std::string_view, Program> kPrograms[] = {
      {"zoo", run_zoo},         {"inspect", run_inspect},       {"diff", run_diff},
      {"retune", run_retune},   {"quantize", run_quantize},     {"explore", run_explore},
      {"process", run_process}, {"completion", run_completion}, {"man", run_man},
      {"edit", run_edit},       {"autocast", run_autocast},     {"why", run_why}};
  for (const auto& [name, program] : kPrograms) {
    if (name == command) return program;
  }
  return nullptr;
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
}

int run_help(const Words& words) {
  if (words.empty() || words[0].starts_with("-")) {
    print(general_help());
    return 0;
  }
  if (words[0] == "trtexec") return run_trtexec("lathe trtexec", {"--help"});
  const CommandSyntax* command = find_command(words[0]);
  if (command == nullptr) throw_no_command(words[0]);
  print(command_help(*command));
  return 0;
}

int run_lathe(const Words& words) {
  if (words.empty()) {
    print(general_help());
    return 0;
  }
  const std::string name = words[0] == "--help" || words[0] == "-h" ? "help" : words[0];
  const Words rest(words.begin() + 1, words.end());
  if (name == "trtexec") return run_trtexec("lathe trtexec", rest);
  if (name == "help") return run_help(rest);
  const Program program = program_of(name);
  if (program == nullptr) throw_no_command(name);
  for (const auto& word : rest) {
    if (word == "--help" || word == "-h") {
      print(command_help(command_syntax(name)));
      return 0;
    }
  }
  return program(rest);
}

int dispatch(const std::string& program, const Words& words) {
  const std::string base = std::filesystem::path(program).filename().string();
  if (base == "trtexec") return run_trtexec(program, words);
  if (words.size() == 1 && words[0] == "--version") {
    print(fmt::format("lathe {}\n", version()));
    return 0;
  }
  return run_lathe(words);
}

// Runs `body`; a message on stderr and 1 for anything thrown.
int guarded(const std::function<int()>& body) {
  const auto complain = [](const std::string& text) {
    std::fflush(stdout);
    std::fprintf(stderr, "lathe: %s\n", printable(text).c_str());
    return 1;
  };
  try {
    return body();
  } catch (const Interrupted& interrupted) {
    return complain(interrupted.what());
  } catch (const Failure& failure) {
    for (const auto& line : failure.lines()) complain(line.text);
    return 1;
  } catch (const std::exception& error) {
    return complain(text_of(error));
  }
}

// Whether the reader of standard output has gone, as `head -1` does when it has its line.
bool reader_has_gone() {
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

}  // namespace
}  // namespace lathe::cli

int main(int argc, char** argv) {
  // A full disk or a size limit is an error to report, not a reason to die; files are written to the end
  // although nobody reads standard output any more.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const std::string program = argc > 0 ? argv[0] : "lathe";
  const lathe::cli::Words words(argv + (argc > 0 ? 1 : 0), argv + argc);
  const int code = lathe::cli::guarded([&] {
    lathe::cli::watch_interrupts();
    return lathe::cli::dispatch(program, words);
  });
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (const int signal = lathe::cli::interrupt_signal(); signal != 0) lathe::cli::end_by_signal(signal);
  if (!written && !lathe::cli::reader_has_gone()) {
    std::fprintf(stderr, "lathe: standard output could not be written\n");
    return 1;
  }
  return code;
}
