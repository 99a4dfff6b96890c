// SPDX-License-Identifier: Apache-2.0
#include "plugin/registry.h"

#include <algorithm>

#include "base/error.h"
#include "plugin/operator_code.h"

namespace lathe::plugin {
namespace {

// "9" < "10": shorter versions are lower.
bool is_lower(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace

void Registry::load(const std::string& path) {
  {
    const std::lock_guard lock(mutex_);
    if (std::ranges::any_of(entries_, [&](const Entry& entry) { return entry.library == path; })) return;
  }
  add_all(open_library(path), path);
}

void Registry::add_all(const Library& library, const std::string& path) {
  const std::lock_guard lock(mutex_);
  for (const lathe_plugin_operator* op : library.operators) {
    const PluginIdentity identity = identity_of(*op);
    const auto same = std::ranges::find(entries_, identity, &Entry::identity);
    if (same != entries_.end())
      throw_input_error("plugin library '" + path + "' has the plugin " + identity.to_string() +
                        (same->library.empty() ? ", which this program has added already"
                                               : ", which '" + same->library + "' has already"));
  }
  for (const lathe_plugin_operator* op : library.operators)
    entries_.push_back({identity_of(*op), path, op, library.handle});
}

void Registry::add(const lathe_plugin_operator& op, std::shared_ptr<const void> owner) {
  check_operator(op);
  const std::lock_guard lock(mutex_);
  const PluginIdentity identity = identity_of(op);
  if (std::ranges::find(entries_, identity, &Entry::identity) != entries_.end())
    throw_input_error("there is a plugin " + identity.to_string() + " already");
  entries_.push_back({identity, "", &op, std::move(owner)});
}

std::vector<Registry::Entry> Registry::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

const Registry::Entry* Registry::find(const PluginIdentity& identity) const {
  const Entry* best = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.identity.name != identity.name || entry.identity.name_space != identity.name_space) continue;
    if (entry.identity.version == identity.version) return &entry;
    if (identity.version.empty() && (!best || is_lower(best->identity.version, entry.identity.version)))
      best = &entry;
  }
  return best;
}

bool Registry::has(const PluginIdentity& identity) const {
  const std::lock_guard lock(mutex_);
  return find(identity) != nullptr;
}

std::shared_ptr<const PluginCode> Registry::create(const PluginIdentity& identity,
                                                   std::string_view fields) const {
  std::unique_lock lock(mutex_);
  const Entry* entry = find(identity);
  if (!entry) return nullptr;
  const Entry found = *entry;
  lock.unlock();  // the library's code may take its time, and ask us
  return make_code(*found.op, found.handle, fields);
}

std::string Registry::list() const {
  std::string text;
  for (const Entry& entry : entries()) text += (text.empty() ? "" : ", ") + entry.identity.to_string();
  return text;
}

bool Registry::load_carried(const std::string& name, std::span<const std::byte> bytes) {
  if (!trusts_engines_) return false;
  const Library library = open_library(name, bytes);
  const std::lock_guard lock(mutex_);
  // Engines of one registry may carry the same library: the first is as good as the next.
  for (const lathe_plugin_operator* op : library.operators) {
    const PluginIdentity identity = identity_of(*op);
    if (std::ranges::find(entries_, identity, &Entry::identity) == entries_.end())
      entries_.push_back({identity, name, op, library.handle});
  }
  return true;
}

}  // namespace lathe::plugin
