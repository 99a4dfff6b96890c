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
#include "base/file.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

struct ZipDiscard {
  void operator()(zip_t* zip) const { zip_discard(zip); }
};
struct SourceFree {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
using Source = std::unique_ptr<zip_source_t, SourceFree>;
struct ZipFileClose {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Zip = std::unique_ptr<zip_t, ZipDiscard>;

bool may_be_read(std::string_view name) {
  return name.ends_with(".json") || name.ends_with(".log") || name.ends_with(".txt");
}

// `left`: bytes that the archive may still become.
std::string read_entry(zip_t* zip, zip_uint64_t index, const std::string& name, zip_uint64_t& left) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_stat_index(zip, index, 0, &stat) != 0 || (stat.valid & ZIP_STAT_SIZE) == 0)
    throw_input_error(name + ": its size in the archive is unknown");
  if (stat.size > left) throw_input_error(name + ": with it, the archive's files have more than 1 GiB");
  left -= stat.size;
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

std::string read_all(zip_source_t* source) {
  check(zip_source_open(source) == 0 && zip_source_seek(source, 0, SEEK_END) == 0, "an archive in memory");
  std::string bytes(static_cast<size_t>(zip_source_tell(source)), '\0');
  const bool read =
      zip_source_seek(source, 0, SEEK_SET) == 0 &&
      zip_source_read(source, bytes.data(), bytes.size()) == static_cast<zip_int64_t>(bytes.size());
  zip_source_close(source);
  check(read, "an archive in memory");
  return bytes;
}

}  // namespace

bool is_archive(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4> start{};
  return file.read(start.data(), start.size()) && std::string_view(start.data(), 4) == "PK\x03\x04";
}

// Made in memory and written like every file of ours: beside its target under a name that nobody can guess,
// and renamed.
void write_archive(const std::string& path, const std::vector<std::string>& files) {
  zip_error_t error;
  zip_error_init(&error);
  const Source memory(zip_source_buffer_create(nullptr, 0, 0, &error));
  check(memory != nullptr, "no memory for an archive");
  zip_source_keep(memory.get());  // the archive takes one of the two
  Zip zip(zip_open_from_source(memory.get(), ZIP_CREATE | ZIP_TRUNCATE, &error));
  if (zip == nullptr)
    throw_system_error(fmt::format("{} cannot be written: {}", path, zip_error_strerror(&error)));
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
  write_file_atomically(path, read_all(memory.get()));
}

std::vector<explorer::InputFile> read_archive(const std::string& path, uint64_t most_bytes) {
  int code = 0;
  const Zip zip(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (zip == nullptr) throw_input_error(path + ": a ZIP archive that cannot be read");
  std::vector<explorer::InputFile> files;
  zip_uint64_t left = most_bytes;
  for (zip_int64_t i = 0; i < zip_get_num_entries(zip.get(), 0); ++i) {
    const char* entry = zip_get_name(zip.get(), static_cast<zip_uint64_t>(i), 0);
    if (entry == nullptr || !may_be_read(entry)) continue;
    const std::string name = path + "/" + entry;
    std::string text = read_entry(zip.get(), static_cast<zip_uint64_t>(i), name, left);
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
