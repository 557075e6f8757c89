// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/json.hpp"

namespace hugectr {

/// A file of a checkpoint: an array with a CRC-32 a chunk.
struct SavedFile {
  std::uint64_t bytes = 0;
  std::uint64_t chunk_bytes = 1;  ///< of every chunk but the last
  std::string dtype;              ///< "" of files of the schema
  std::vector<std::uint64_t> shape;
  std::vector<std::uint32_t> crc32;
};

/// Rows of a shard in segments of the disk of the training that saved it, as they lay there: files
/// of keys, slots and places (linked_segments.hpp), in the order of places, and the segments.
struct SavedLink {
  std::size_t shard = 0;
  std::size_t number = 0;  ///< in its shard
  std::uint64_t rows = 0;
  std::vector<std::uint32_t> heads;  ///< CRC-32 of the first block of each segment
};

/// A table, in shards whose rows are sorted by (slot, key). A shard is a file each of keys, slots
/// (where they are part of identity) and vectors, and of what training needs.
struct SavedTable {
  std::size_t index = 0;
  bool gone = false;  ///< rows that a delta takes away: keys and slots alone
  std::string name;
  std::size_t vec_size = 0;
  bool in_bfloat16 = false;  ///< its vectors; else float32
  bool has_slots = false;
  std::uint64_t chunk_rows = 0;
  std::vector<std::uint64_t> shard_rows;
  std::vector<SavedLink> links;  ///< rows besides those
  std::size_t link_bytes = 0;    ///< of a row in a segment: vector, states, last step

  /// Name of the file of a part ("key", "slot", "vector") of a shard.
  std::string file(const char* part, std::size_t shard, int format) const;
  /// Of a link: of a part ("key", "slot", "place"), and of a segment of it.
  std::string file(const std::string& part, const SavedLink& link) const;
  std::string segment(std::size_t i, const SavedLink& link) const {
    return file(concat("segment", i + 1), link);
  }
};

/// manifest.json of a native checkpoint (docs/checkpoints.md), as far as predictions need it, every
/// member of that checked: sizes, shapes and checksums fit one another, names are names of files in
/// the folder.
struct Manifest {
  std::string path;  ///< of the folder
  int format = 0;
  std::uint32_t crc32 = 0;
  std::int64_t step = 0;
  std::size_t batchsize_eval = 0;  ///< 0: it does not say
  /// Layers with running statistics, by first top; none: of the original layout, which has no
  /// names.
  std::vector<std::optional<std::string>> statistics;
  /// Names and sizes of the dense weights; none: it does not say.
  std::optional<std::vector<std::pair<std::string, std::uint64_t>>> dense_tensors;
  std::vector<SavedTable> tables;
  std::vector<SavedTable> gone;  ///< of a delta: rows that went since what it builds on; or none
  std::unordered_map<std::string, SavedFile> files;
  std::vector<std::string> chain;  ///< folders beside this one that it builds on, oldest first
  std::vector<std::uint32_t> chain_crc32;  ///< of their manifests
  Json description;                        ///< of the model; null: it does not say
  Json schema;  ///< name -> file of the schema of the data; null: it has none
  std::shared_ptr<const std::string> text;  ///< that these two refer to
};

/// The text of a manifest.json, checked. `path` is the folder: its name says the step too.
/// Throws DataError without the name of the file.
Manifest parse_manifest(const std::string& path, std::string text);

/// The same of the file in a folder; DataError with its name and a way out.
Manifest read_manifest(const std::string& path);

}  // namespace hugectr
