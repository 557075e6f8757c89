// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/placement/embedding_type.hpp"

namespace hugectr {

/// The type that manifests of checkpoints call "Distributed" or "Localized"; DataError for another.
inline EmbeddingType embedding_type_of_manifest(const std::string& name) {
  if (name == "Distributed") return EmbeddingType::DistributedSlotSparseEmbeddingHash;
  if (name == "Localized") return EmbeddingType::LocalizedSlotSparseEmbeddingHash;
  throw DataError(concat("a table's type is '", name, "', which this version does not have"));
}

}  // namespace hugectr
