// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "core/cpp/checkpoints/manifest.hpp"

namespace hugectr {

/// The checkpoint that a path names: itself, or the newest of a folder of them. InvalidArgument
/// when there is none.
std::string checkpoint_at(const std::string& path);

/// The manifests of a checkpoint and of all that it builds on, oldest first: each the one that the
/// next was made from, all of the same tables, all files there with their sizes. DataError names
/// what is not.
std::vector<Manifest> links_of(const std::string& path);

/// The bytes of a chunk of a file, checked. DataError names file and bytes.
class SavedBytes {
 public:
  SavedBytes(const Manifest& manifest, const std::string& name);
  ~SavedBytes();
  SavedBytes(const SavedBytes&) = delete;
  SavedBytes& operator=(const SavedBytes&) = delete;

  /// Good until the next call; aligned for what the file holds.
  const void* chunk(std::size_t number);
  std::uint64_t chunk_size(std::size_t number) const;
  std::size_t chunks() const { return file_.crc32.size(); }

 private:
  struct Reading;
  const SavedFile& file_;
  std::unique_ptr<Reading> reading_;
};

}  // namespace hugectr
