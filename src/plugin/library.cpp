// SPDX-License-Identifier: Apache-2.0
#include "plugin/library.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "plugin/operator_code.h"

namespace lathe::plugin {
namespace {

std::vector<const lathe_plugin_operator*> operators_of(void* handle) {
  const auto function =
      reinterpret_cast<lathe_plugin_library_function>(dlsym(handle, "lathe_plugin_library"));
  if (!function)
    throw_input_error(
        "it exports no function lathe_plugin_library: it is no plugin library of Lathe (TensorRT's cannot "
        "be loaded; docs/plugins.md says how to port one)");
  const lathe_plugin_library_info* info = function(LATHE_PLUGIN_ABI_VERSION);
  if (!info)
    throw_input_error("it does not work with version " + std::to_string(LATHE_PLUGIN_ABI_VERSION) +
                      " of the plugin interface, which this Lathe has");
  if (info->abi_version != LATHE_PLUGIN_ABI_VERSION)
    throw_input_error("it was made for version " + std::to_string(info->abi_version) +
                      " of the plugin interface, this Lathe has version " +
                      std::to_string(LATHE_PLUGIN_ABI_VERSION) +
                      "; compile it with this version's lathe/plugin_abi.h");
  if (info->struct_size < sizeof(lathe_plugin_library_info) || (info->operator_count > 0 && !info->operators))
    throw_input_error("the list of its operators is damaged");
  std::vector<const lathe_plugin_operator*> operators;
  for (size_t i = 0; i < info->operator_count; ++i) {
    if (!info->operators[i]) throw_input_error("operator " + std::to_string(i) + " of its list is null");
    check_operator(*info->operators[i]);
    operators.push_back(info->operators[i]);
  }
  if (operators.empty()) throw_input_error("it has no operators");
  return operators;
}

Library open(const std::string& file, const std::string& name) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();
    throw_input_error("Unable to open library: " + name + " due to " + (why ? why : "an unknown reason"));
  }
  Library library{
      .handle = std::shared_ptr<const void>(handle, [](const void* h) { dlclose(const_cast<void*>(h)); })};
  try {
    library.operators = operators_of(handle);
  } catch (Error& error) {
    error.add_context("plugin library '" + name + "'");
    throw;
  }
  return library;
}

}  // namespace

Library open_library(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown))
    throw_input_error("Unable to open library: " + path + " due to: no such file");
  return open(std::filesystem::absolute(path).string(), path);
}

Library open_library(const std::string& name, std::span<const std::byte> bytes) {
  const int file = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (file < 0)
    throw_system_error("cannot make a file in memory for library '" + name + "': " + std::strerror(errno));
  const std::shared_ptr<void> close_file(nullptr, [file](void*) { close(file); });
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t written = write(file, bytes.data() + at, bytes.size() - at);
    if (written <= 0)
      throw_system_error("cannot write library '" + name + "' to memory: " + std::strerror(errno));
    at += static_cast<size_t>(written);
  }
  return open("/proc/self/fd/" + std::to_string(file), name);
}

}  // namespace lathe::plugin
