// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/cpp/base/export.hpp"
#include "core/cpp/embedding/identity.hpp"

/// v3's embedding types say two things in one word. This is where they are taken apart; nothing
/// else asks for a type.
namespace hugectr {

enum class EmbeddingType { DistributedSlotSparseEmbeddingHash, LocalizedSlotSparseEmbeddingHash };

/// Where rows are (placement.hpp).
enum class PlacementKind { ByKey, BySlot, OneDevice, Replicated, ByColumn, Hybrid };

HCTR_API Identity identity_of(EmbeddingType type);
HCTR_API PlacementKind placement_of(EmbeddingType type);
/// The same by identity, of which each type has its own.
HCTR_API PlacementKind placement_of(Identity identity);
HCTR_API std::string to_string(EmbeddingType type);

}  // namespace hugectr
