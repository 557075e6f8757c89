// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/checkpoints/links.hpp"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <sstream>

#include "core/cpp/base/crc32.hpp"
#include "core/cpp/base/error.hpp"
#include "core/cpp/data/file_bytes.hpp"

namespace hugectr {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWayOut = ": take another checkpoint";

bool has_manifest(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "manifest.json", ignored);
}

/// "step-" and ten digits; `.again` behind is the same step, while it takes the other one's place.
std::string step_of(const std::string& name) {
  const std::string digits = name.substr(std::min<std::size_t>(5, name.size()), 10);
  const bool numbered = name.starts_with("step-") && digits.size() == 10 &&
                        digits.find_first_not_of("0123456789") == digits.npos;
  const std::string rest = numbered ? name.substr(15) : "";
  return numbered && (rest.empty() || rest == ".again") ? digits : "";
}

void check_sizes(const Manifest& manifest) {
  for (const auto& [name, entry] : manifest.files) {
    const fs::path file = fs::path(manifest.path) / name;
    std::error_code error;
    const fs::file_status status = fs::status(file, error);
    std::string found;
    if (status.type() == fs::file_type::not_found) {
      found = "is missing";
    } else if (error) {
      found = concat("can not be read (", error.message(), ")");
    } else if (status.type() != fs::file_type::regular) {
      found = "is no regular file";
    } else if (const auto size = fs::file_size(file, error); size != entry.bytes) {
      found = concat("has ", size, " bytes");
    } else {
      continue;
    }
    throw DataError(
        concat(file.string(), " ", found, ", the manifest says ", entry.bytes, " bytes", kWayOut));
  }
}

bool same_tables(const Manifest& a, const Manifest& b) {
  return std::equal(a.tables.begin(), a.tables.end(), b.tables.begin(), b.tables.end(),
                    [](const SavedTable& one, const SavedTable& two) {
                      return one.name == two.name && one.vec_size == two.vec_size &&
                             one.has_slots == two.has_slots;
                    });
}

}  // namespace

std::string checkpoint_at(const std::string& path) {
  if (has_manifest(path)) return path;
  std::string newest, newest_step;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename(), step = step_of(name);
    // Of one step the name without `.again`, which is the shorter.
    const bool later = step > newest_step || (step == newest_step && name < newest);
    if (!step.empty() && later && has_manifest(at->path())) newest = name, newest_step = step;
  }
  if (newest.empty()) {
    const char* const why = fs::exists(path, error) ? "" : "; there is no such folder";
    throw InvalidArgument(concat("load: ", path, " is no checkpoint and has none in it", why));
  }
  return (fs::path(path) / newest).string();
}

std::vector<Manifest> links_of(const std::string& path) {
  Manifest last = read_manifest(path);
  std::vector<Manifest> links;
  const fs::path beside = fs::absolute(path).lexically_normal().parent_path();
  for (std::size_t i = 0; i < last.chain.size(); ++i) {
    const fs::path folder = beside / last.chain[i];
    if (std::error_code ignored; !fs::is_directory(folder, ignored)) {
      throw DataError(concat(path, " is a delta and needs ", folder.string(),
                             ", which is not there: copy deltas together with what they build on, "
                             "or take a full checkpoint"));
    }
    Manifest link = read_manifest(folder.string());
    const std::vector<std::string> before(last.chain.begin(), last.chain.begin() + i);
    if (link.crc32 != last.chain_crc32[i] || link.chain != before) {
      throw DataError(
          concat(folder.string(), " is not the checkpoint that the delta was made from", kWayOut));
    }
    links.push_back(std::move(link));
  }
  links.push_back(std::move(last));
  for (const Manifest& link : links) {
    check_sizes(link);
    if (!same_tables(link, links.back())) {
      throw DataError(
          concat(link.path, " has other tables than the delta that builds on it", kWayOut));
    }
  }
  return links;
}

struct SavedBytes::Reading {
  explicit Reading(const std::string& path) : file(path) {}
  RandomAccessFile file;
  FileBytes bytes;
};

SavedBytes::SavedBytes(const Manifest& manifest, const std::string& name)
    : file_(manifest.files.at(name)),
      reading_(std::make_unique<Reading>((fs::path(manifest.path) / name).string())) {}

SavedBytes::~SavedBytes() = default;

std::uint64_t SavedBytes::chunk_size(std::size_t number) const {
  return std::min(file_.chunk_bytes, file_.bytes - number * file_.chunk_bytes);
}

const void* SavedBytes::chunk(std::size_t number) {
  const std::uint64_t begin = number * file_.chunk_bytes, size = chunk_size(number);
  reading_->file.read(begin, static_cast<std::size_t>(size), reading_->bytes);
  const void* const data = reading_->bytes.data();
  if (const std::uint32_t found = crc32(data, size); found != file_.crc32[number]) {
    std::ostringstream sums;
    sums << std::hex << std::setfill('0') << std::setw(8) << found << ", the manifest says "
         << std::setw(8) << file_.crc32[number];
    throw DataError(concat(reading_->file.path(), " is damaged in bytes ", begin, " to ",
                           begin + size, ": their checksum is ", sums.str(),
                           "; take another checkpoint"));
  }
  return data;
}

}  // namespace hugectr
