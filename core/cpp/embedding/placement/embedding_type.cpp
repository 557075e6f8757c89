// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/placement/embedding_type.hpp"

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

struct Meaning {
  const char* name;
  Identity identity;
  PlacementKind placement;
};

Meaning meaning_of(EmbeddingType type) {
  if (type == EmbeddingType::LocalizedSlotSparseEmbeddingHash) {
    return {"LocalizedSlotSparseEmbeddingHash", Identity::SlotAndKey, PlacementKind::BySlot};
  }
  return {"DistributedSlotSparseEmbeddingHash", Identity::Key, PlacementKind::ByKey};
}

}  // namespace

Identity identity_of(EmbeddingType type) { return meaning_of(type).identity; }
PlacementKind placement_of(EmbeddingType type) { return meaning_of(type).placement; }
PlacementKind placement_of(Identity identity) {
  using enum EmbeddingType;
  for (const EmbeddingType type :
       {DistributedSlotSparseEmbeddingHash, LocalizedSlotSparseEmbeddingHash}) {
    if (identity_of(type) == identity) return placement_of(type);
  }
  throw InvalidArgument("identity of no embedding type");
}
std::string to_string(EmbeddingType type) { return meaning_of(type).name; }

}  // namespace hugectr
