// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/checkpoints/manifest.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "core/cpp/base/crc32.hpp"
#include "core/cpp/base/error.hpp"
#include "core/cpp/data/file_bytes.hpp"

namespace hugectr {
namespace {

constexpr std::int64_t kNewestFormat = 4;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;
constexpr std::int64_t kUint32 = std::numeric_limits<std::uint32_t>::max();
/// 10 TB of tables take about 50 MB.
constexpr std::uint64_t kLargestManifest = 256 << 20;

[[noreturn]] void unfit(const std::string& where, const std::string& wanted) {
  throw DataError(concat(where, " must be ", wanted));
}

std::uint64_t bytes_of(const Json& json, const std::string& where, std::int64_t low = 0) {
  return static_cast<std::uint64_t>(json.integer(where, low, kMostBytes));
}

std::uint32_t sum_of(const Json& json, const std::string& where) {
  return static_cast<std::uint32_t>(json.integer(where, 0, kUint32));
}

/// Null where there is none, or one that is null.
const Json* member(const Json& json, const std::string& name) {
  const Json* const found = json.find(name, "the manifest");
  return found == nullptr || found->is_null() ? nullptr : found;
}

/// Of a file in the folder: there is no way out of it, and nothing hidden.
void check_file_name(const std::string& name, const std::string& where) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
  if (name.empty() || name.size() > 255 || name[0] == '.' || !plain) {
    throw DataError(concat("a name in ", where, " is no file's: '", name.substr(0, 80), "'"));
  }
}

std::uint64_t item_bytes(const std::string& dtype) {
  return dtype == "uint8"                                              ? 1
         : dtype == "bfloat16"                                         ? 2
         : dtype == "float32"                                          ? 4
         : dtype == "float64" || dtype == "int64" || dtype == "uint64" ? 8
                                                                       : 0;
}

/// a * b, or the largest number there is.
std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::numeric_limits<std::uint64_t>::max();
  return result;
}

SavedFile file_of(const Json& json, const std::string& where, int format, bool array) {
  SavedFile file;
  file.bytes = bytes_of(json.at("bytes", where), where + ".bytes");
  if (array) {
    file.dtype = json.at("dtype", where).text(where + ".dtype");
    std::uint64_t size = item_bytes(file.dtype);
    if (size == 0) unfit(where + ".dtype", "uint8, bfloat16, float32, float64, int64 or uint64");
    for (const Json& one : json.at("shape", where).list(where + ".shape")) {
      file.shape.push_back(bytes_of(one, where + ".shape"));
      size = product(size, file.shape.back());
    }
    if (file.shape.empty() || file.shape.size() > 8) unfit(where + ".shape", "of 1 to 8 numbers");
    if (size != file.bytes) unfit(where + ".bytes", concat(size, ", as its shape says"));
  }
  const Json& sums = json.at("crc32", where);
  if (format == 1) {  // one of the whole
    file.chunk_bytes = std::max<std::uint64_t>(file.bytes, 1);
    file.crc32 = {sum_of(sums, where + ".crc32")};
    return file;
  }
  file.chunk_bytes = bytes_of(json.at("chunk_bytes", where), where + ".chunk_bytes", 1);
  for (const Json& one : sums.list(where + ".crc32")) {
    file.crc32.push_back(sum_of(one, where + ".crc32"));
  }
  const std::uint64_t chunks =
      file.bytes / file.chunk_bytes + (file.bytes % file.chunk_bytes == 0 ? 0 : 1);
  if (file.crc32.size() != chunks) unfit(where + ".crc32", concat("of ", chunks, " checksums"));
  return file;
}

SavedTable table_of(const Json& json, std::size_t index, int format, bool gone) {
  const std::string where = concat(gone ? "gone[" : "tables[", index, "]");
  SavedTable table;
  table.index = index;
  table.gone = gone;
  table.name = json.at("name", where).text(where + ".name");
  table.vec_size = static_cast<std::size_t>(
      json.at("vec_size", where).integer(where + ".vec_size", 1, std::int64_t{1} << 31));
  const auto parts = json.at("parts", where).texts(where + ".parts");
  const auto has = [&](const char* part) {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  if (!has("key") || has("vector") == gone) unfit(where + ".parts", "key, slot, vector, ...");
  table.has_slots = has("slot");
  const std::uint64_t rows = bytes_of(json.at("rows", where), where + ".rows");
  if (format == 1) {
    table.chunk_rows = std::max<std::uint64_t>(rows, 1);
    table.shard_rows = {rows};
    return table;
  }
  table.chunk_rows = bytes_of(json.at("chunk_rows", where), where + ".chunk_rows", 1);
  std::uint64_t sum = 0;
  const auto add = [&](std::uint64_t more) {
    if (__builtin_add_overflow(sum, more, &sum)) sum = kMostBytes;
  };
  for (const Json& shard : json.at("shards", where).list(where + ".shards")) {
    table.shard_rows.push_back(bytes_of(shard.at("rows", where), where + ".shards.rows"));
    add(table.shard_rows.back());
    const Json* const links = format < 4 || gone ? nullptr : shard.find("linked", where);
    if (links == nullptr) continue;
    for (const Json& one : links->list(where + ".shards.linked")) {
      const std::size_t number = table.links.size();
      const bool same_shard = number > 0 && table.links.back().shard + 1 == table.shard_rows.size();
      SavedLink& link = table.links.emplace_back();
      link.shard = table.shard_rows.size() - 1;
      link.number = same_shard ? table.links[number - 1].number + 1 : 0;
      link.rows = bytes_of(one.at("rows", where), where + ".shards.linked.rows");
      for (const Json& head : one.at("heads", where).list(where + ".shards.linked.heads")) {
        link.heads.push_back(sum_of(head, where + ".shards.linked.heads"));
      }
      add(link.rows);
    }
  }
  if (table.shard_rows.empty() || sum != rows) unfit(where + ".shards", "of all its rows");
  return table;
}

/// Whether a file is an array of such rows, in chunks of whole rows.
void check_part(const Manifest& manifest, const SavedTable& table, const char* part,
                std::size_t shard, const char* dtype, std::uint64_t width) {
  const std::string name = table.file(part, shard, manifest.format);
  const auto found = manifest.files.find(name);
  if (found == manifest.files.end()) unfit("files", concat("an object with '", name, "'"));
  const SavedFile& file = found->second;
  std::vector<std::uint64_t> shape{table.shard_rows[shard]};
  if (std::string_view(part) == "vector") shape.push_back(width);
  if (file.dtype != dtype || file.shape != shape) {
    unfit(concat("files.", name),
          concat(dtype, " of ", table.shard_rows[shard], " rows of ", width));
  }
  const std::uint64_t chunk = product(table.chunk_rows, product(width, item_bytes(dtype)));
  if (manifest.format > 1 && file.chunk_bytes != chunk) {
    unfit(concat("files.", name, ".chunk_bytes"), concat(chunk, ", as chunk_rows says"));
  }
}

/// An array of whole rows of a link, as check_part.
void check_link_part(const Manifest& manifest, const SavedTable& table, const char* part,
                     const SavedLink& link, const char* dtype) {
  const std::string name = table.file(std::string(part), link);
  const auto found = manifest.files.find(name);
  if (found == manifest.files.end()) unfit("files", concat("an object with '", name, "'"));
  const SavedFile& file = found->second;
  if (file.dtype != dtype || file.shape != std::vector<std::uint64_t>{link.rows}) {
    unfit(concat("files.", name), concat(dtype, " of ", link.rows, " rows"));
  }
  const std::uint64_t chunk = product(table.chunk_rows, sizeof(std::uint64_t));
  if (file.chunk_bytes != chunk) {
    unfit(concat("files.", name, ".chunk_bytes"), concat(chunk, ", as chunk_rows says"));
  }
}

/// The bytes of a row in a segment, and that all that links need is there.
void check_links(const Manifest& manifest, SavedTable& table,
                 const std::vector<std::string>& parts) {
  table.link_bytes = table.vec_size * (table.in_bfloat16 ? 2 : 4);
  for (const std::string& part : parts) {
    if (part == "last_step") table.link_bytes += sizeof(std::int64_t);
    if (!part.starts_with("state")) continue;
    const auto found = manifest.files.find(table.file(part.c_str(), 0, manifest.format));
    const bool fits = found != manifest.files.end() && found->second.dtype == "float32" &&
                      found->second.shape.size() == 2 &&
                      (found->second.shape[1] == 1 || found->second.shape[1] == table.vec_size);
    if (!fits) unfit(concat("files of ", part), concat("float32 of 1 or ", table.vec_size));
    table.link_bytes += found->second.shape[1] * sizeof(float);
  }
  for (const SavedLink& link : table.links) {
    check_link_part(manifest, table, "key", link, "int64");
    if (table.has_slots) check_link_part(manifest, table, "slot", link, "uint64");
    check_link_part(manifest, table, "place", link, "uint64");
    for (std::size_t i = 0; i < link.heads.size(); ++i) {
      const auto found = manifest.files.find(table.segment(i, link));
      if (found == manifest.files.end() || found->second.dtype != "uint8") {
        unfit("files", concat("an object with '", table.segment(i, link), "' of uint8"));
      }
    }
  }
}

void check_vector(const Manifest& manifest, const std::string& name) {
  const auto found = manifest.files.find(name);
  if (found == manifest.files.end()) unfit("files", concat("an object with '", name, "'"));
  if (found->second.shape.size() != 1 || found->second.dtype[0] != 'f') {
    unfit(concat("files.", name), "floating-point numbers in one dimension");
  }
}

void take_files(Manifest& manifest, const Json& root) {
  for (const auto& [name, entry] : root.at("files", "the manifest").members("files")) {
    check_file_name(name, "files");
    manifest.files.emplace(name, file_of(entry, "files." + name, manifest.format, true));
  }
  if (const Json* const schema = member(root, "schema")) {
    manifest.schema = *schema;
    for (const auto& [name, entry] : schema->members("schema")) {
      check_file_name(name, "schema");
      manifest.files.emplace("schema/" + name,
                             file_of(entry, "schema." + name, manifest.format, false));
    }
  }
}

void take_dense(Manifest& manifest, const Json& root) {
  check_vector(manifest, "dense.weights");
  const SavedFile& weights = manifest.files.at("dense.weights");
  if (weights.dtype != "float32") unfit("files.dense.weights.dtype", "float32");
  for (const Json& one : root.at("statistics", "the manifest").list("statistics")) {
    const std::string name = concat("statistics", manifest.statistics.size());
    check_vector(manifest, name + ".mean");
    check_vector(manifest, name + ".var");
    if (manifest.files.at(name + ".mean").shape != manifest.files.at(name + ".var").shape) {
      unfit(concat("files.", name, ".var.shape"), "that of the mean");
    }
    manifest.statistics.emplace_back();
    if (!one.is_null()) manifest.statistics.back() = one.text("statistics");
  }
  if (const Json* const tensors = member(root, "dense_tensors")) {
    manifest.dense_tensors.emplace();
    std::uint64_t all = 0;
    for (const Json& one : tensors->list("dense_tensors")) {
      std::uint64_t size = 1;
      for (const Json& d : one.at("shape", "dense_tensors").list("dense_tensors.shape")) {
        size = product(size, bytes_of(d, "dense_tensors.shape"));
      }
      if (__builtin_add_overflow(all, size, &all)) all = kMostBytes;
      manifest.dense_tensors->emplace_back(
          one.at("name", "dense_tensors").text("dense_tensors.name"), size);
    }
    if (all != weights.shape[0]) unfit("dense_tensors", "of the values of dense.weights");
  }
}

void take_tables(Manifest& manifest, const Json& root) {
  for (const Json& one : root.at("tables", "the manifest").list("tables")) {
    manifest.tables.push_back(table_of(one, manifest.tables.size(), manifest.format, false));
    const SavedTable& table = manifest.tables.back();
    for (std::size_t shard = 0; shard < table.shard_rows.size(); ++shard) {
      check_part(manifest, table, "key", shard, "int64", 1);
      if (table.has_slots) check_part(manifest, table, "slot", shard, "uint64", 1);
      const auto vectors = manifest.files.find(table.file("vector", shard, manifest.format));
      const bool in_16_bits =
          vectors != manifest.files.end() && vectors->second.dtype == "bfloat16";
      if (shard == 0) manifest.tables.back().in_bfloat16 = in_16_bits;
      check_part(manifest, table, "vector", shard, table.in_bfloat16 ? "bfloat16" : "float32",
                 table.vec_size);
    }
    if (!table.links.empty()) {
      check_links(manifest, manifest.tables.back(),
                  one.at("parts", "tables").texts("tables.parts"));
    }
  }
  const Json* const gone = member(root, "gone");
  if (gone == nullptr) return;
  for (const Json& one : gone->list("gone")) {
    manifest.gone.push_back(table_of(one, manifest.gone.size(), manifest.format, true));
    const SavedTable& table = manifest.gone.back();
    for (std::size_t shard = 0; shard < table.shard_rows.size(); ++shard) {
      check_part(manifest, table, "key", shard, "int64", 1);
      if (table.has_slots) check_part(manifest, table, "slot", shard, "uint64", 1);
    }
  }
  const bool fits = std::equal(
      manifest.gone.begin(), manifest.gone.end(), manifest.tables.begin(), manifest.tables.end(),
      [](const SavedTable& a, const SavedTable& b) { return a.has_slots == b.has_slots; });
  if (!fits) unfit("gone", "one for each of the tables, with slots where those have them");
}

void take_chain(Manifest& manifest, const Json& root) {
  if (const Json* const chain = member(root, "chain")) manifest.chain = chain->texts("chain");
  for (const std::string& name : manifest.chain) {
    if (name.empty() || name == "." || name == ".." || name.size() > 255 ||
        name.find_first_of(std::string("/\0", 2)) != name.npos) {
      throw DataError(concat("a name in chain is no folder's: '", name.substr(0, 80), "'"));
    }
  }
  if (const Json* const sums = member(root, "chain_crc32")) {
    for (const Json& one : sums->list("chain_crc32")) {
      manifest.chain_crc32.push_back(sum_of(one, "chain_crc32"));
    }
  }
  if (manifest.chain.size() != manifest.chain_crc32.size()) {
    unfit("chain_crc32", concat("of ", manifest.chain.size(), " checksums"));
  }
}

/// A folder may be called after its step: step-<ten digits>, with .again behind while it is being
/// replaced.
void check_folder_name(const Manifest& manifest) {
  const std::string name = std::filesystem::path(manifest.path).filename();
  constexpr std::string_view kBefore = "step-", kAgain = ".again";
  if (!name.starts_with(kBefore)) return;
  std::string digits = name.substr(kBefore.size());
  if (digits.ends_with(kAgain)) digits.resize(digits.size() - kAgain.size());
  if (digits.size() != 10 || digits.find_first_not_of("0123456789") != digits.npos) return;
  if (std::stoll(digits) != manifest.step) {
    throw DataError(concat("it is of step ", manifest.step, ", its folder of another"));
  }
}

}  // namespace

std::string SavedTable::file(const char* part, std::size_t shard, int format) const {
  if (format == 1) return concat("table", index, ".", part);
  return concat(gone ? "gone" : "table", index, ".", part, ".", shard + 1, "-of-",
                shard_rows.size());
}

std::string SavedTable::file(const std::string& part, const SavedLink& link) const {
  return concat("table", index, ".", part, ".", link.shard + 1, "-of-", shard_rows.size(),
                ".linked", link.number + 1);
}

Manifest parse_manifest(const std::string& path, std::string text) {
  Manifest manifest;
  manifest.path = path;
  manifest.text = std::make_shared<const std::string>(std::move(text));
  const Json root = parse_json(*manifest.text);
  const std::int64_t format = root.at("format", "the manifest").integer("format", INT64_MIN);
  if (format > kNewestFormat) {
    throw DataError(
        concat("it has format ", format, ", this version reads 1 to ", kNewestFormat, ": update"));
  }
  manifest.crc32 = sum_of(root.at("crc32", "the manifest"), "crc32");
  const std::string summed = sorted_json_text(root, "crc32");
  if (crc32(summed.data(), summed.size()) != manifest.crc32) {
    throw DataError("it is damaged: its checksum is wrong");
  }
  if (format < 1) throw DataError(concat("it has format ", format, ", formats are 1 to 4"));
  manifest.format = static_cast<int>(format);
  manifest.step = root.at("step", "the manifest").integer("step", 0, 9'999'999'999);
  if (const Json* const batch = member(root, "batchsize_eval")) {
    manifest.batchsize_eval =
        static_cast<std::size_t>(batch->integer("batchsize_eval", 1, std::int64_t{1} << 31));
  }
  if (const Json* const description = member(root, "description")) {
    manifest.description = *description;
  }
  take_files(manifest, root);
  take_dense(manifest, root);
  take_tables(manifest, root);
  take_chain(manifest, root);
  check_folder_name(manifest);
  return manifest;
}

Manifest read_manifest(const std::string& path) {
  const std::string name = path + "/manifest.json";
  try {
    const RandomAccessFile file(name);
    if (file.size() > kLargestManifest) {
      throw DataError(concat("it has ", file.size(), " bytes, at most ", kLargestManifest));
    }
    FileBytes bytes;
    file.read(0, static_cast<std::size_t>(file.size()), bytes);
    const auto* const begin = reinterpret_cast<const char*>(bytes.data());
    return parse_manifest(path, std::string(begin, bytes.size()));
  } catch (const DataError& error) {
    throw DataError(concat(name, " can not be read (", error.what(), "): take another checkpoint"));
  }
}

}  // namespace hugectr
