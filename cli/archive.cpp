// SPDX-License-Identifier: Apache-2.0
#include "archive.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/error.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

// A layer file of 100,000 layers has some 200 MB.
constexpr zip_uint64_t kLargestFile = 1ull << 30;

struct ZipDiscard {
  void operator()(zip_t* zip) const { zip_discard(zip); }
};
struct ZipFileClose {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Zip = std::unique_ptr<zip_t, ZipDiscard>;

bool may_be_read(std::string_view name) {
  return name.ends_with(".json") || name.ends_with(".log") || name.ends_with(".txt");
}

std::string read_entry(zip_t* zip, zip_uint64_t index, const std::string& name) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_stat_index(zip, index, 0, &stat) != 0 || (stat.valid & ZIP_STAT_SIZE) == 0 ||
      stat.size > kLargestFile)
    throw_input_error(name + ": its size in the archive is unknown or over 1 GiB");
  std::string text(stat.size, '\0');
  const std::unique_ptr<zip_file_t, ZipFileClose> file(zip_fopen_index(zip, index, 0));
  zip_uint64_t done = 0;
  while (file != nullptr && done < stat.size) {
    const zip_int64_t count = zip_fread(file.get(), text.data() + done, stat.size - done);
    if (count <= 0) break;
    done += static_cast<zip_uint64_t>(count);
  }
  if (done != stat.size) throw_input_error(name + ": the archive is damaged");
  return text;
}

}  // namespace

bool is_archive(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4> start{};
  return file.read(start.data(), start.size()) && std::string_view(start.data(), 4) == "PK\x03\x04";
}

void write_archive(const std::string& path, const std::vector<std::string>& files) {
  const std::string unfinished = path + ".tmp";
  int code = 0;
  Zip zip(zip_open(unfinished.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (zip == nullptr) throw_system_error(fmt::format("{} cannot be written", path));
  for (const auto& file : files) {
    zip_source_t* source = zip_source_file(zip.get(), file.c_str(), 0, 0);
    if (source == nullptr ||
        zip_file_add(zip.get(), fs::path(file).filename().c_str(), source, ZIP_FL_OVERWRITE) < 0) {
      if (source != nullptr) zip_source_free(source);
      throw_system_error(fmt::format("{}: {} cannot be added: {}", path, file, zip_strerror(zip.get())));
    }
  }
  if (zip_close(zip.get()) != 0)
    throw_system_error(fmt::format("{} cannot be written: {}", path, zip_strerror(zip.get())));
  static_cast<void>(zip.release());  // closing it freed it
  fs::rename(unfinished, path);
}

std::vector<explorer::InputFile> read_archive(const std::string& path) {
  int code = 0;
  const Zip zip(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (zip == nullptr) throw_input_error(path + ": a ZIP archive that cannot be read");
  std::vector<explorer::InputFile> files;
  for (zip_int64_t i = 0; i < zip_get_num_entries(zip.get(), 0); ++i) {
    const char* entry = zip_get_name(zip.get(), static_cast<zip_uint64_t>(i), 0);
    if (entry == nullptr || !may_be_read(entry)) continue;
    const std::string name = path + "/" + entry;
    std::string text = read_entry(zip.get(), static_cast<zip_uint64_t>(i), name);
    try {
      files.push_back(explorer::recognise_file(name, std::move(text)));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Input) throw;  // a file about something else
    }
  }
  // Metadata is made from the logs, which say more.
  const auto is_log = [](const auto& file) { return file.kind == explorer::FileKind::Log; };
  if (std::any_of(files.begin(), files.end(), is_log))
    std::erase_if(files, [](const auto& file) { return file.kind == explorer::FileKind::Metadata; });
  if (files.empty()) throw_input_error(path + ": nothing in this archive tells of an engine");
  return files;
}

}  // namespace lathe::cli
