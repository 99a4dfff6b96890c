// SPDX-License-Identifier: Apache-2.0
//
// Runs many command lines, each in a child of a process that has loaded everything: a sanitized program takes
// most of a second to start, and a generator wants thousands.
//
// usage: command_lines SECONDS MEMORY_MIB
// Reads command lines from standard input, one a line, words separated by tabs, the first being the program's
// name. For each it writes "CODE BYTES\n" and so many bytes of what came on standard error. CODE is the exit
// code, or the signal's number below zero: -24 (SIGXCPU) of one that computed for more than SECONDS, -14
// (SIGALRM) of one that did not end in five times as many, on a machine that others may use. MEMORY_MIB
// limits the address space, 0: not (sanitizers need terabytes of it).
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#undef main  // this target's name for the main() of cli/main.cpp is lathe_main
int lathe_main(int argc, char** argv);

namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> words = {""};
  for (const char c : line) {
    if (c == '\t')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

[[noreturn]] void run_child(std::vector<std::string> words, int errors, unsigned seconds, rlim_t bytes) {
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  if (bytes > 0) {
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
  }
  const rlimit computing{seconds, seconds + 60};  // gigabytes are not given back within a second
  setrlimit(RLIMIT_CPU, &computing);
  alarm(std::max(300u, static_cast<unsigned>(5 * seconds)));  // others may want the processor, too
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int code = lathe_main(static_cast<int>(words.size()), arguments.data());
  std::fflush(nullptr);
  _exit(code);
}

std::string contents(std::FILE* file) {
  std::rewind(file);
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: command_lines SECONDS MEMORY_MIB\n", stderr);
    return 2;
  }
  const auto seconds = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
  const rlim_t bytes = std::strtoull(argv[2], nullptr, 10) << 20;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::FILE* errors = std::tmpfile();
    const pid_t child = fork();
    if (child == 0) run_child(split(line), fileno(errors), seconds, bytes);
    int status = 0;
    waitpid(child, &status, 0);
    const std::string text = contents(errors);
    std::fclose(errors);
    std::printf("%d %zu\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), text.size());
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  return 0;
}
