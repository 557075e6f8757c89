// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/arrow_abi.hpp"
#include "core/cpp/device/thread_pool.hpp"

/// Keys of categories: what a column of text or numbers is called in an embedding table.
namespace hugectr {

/// XXH64 of some bytes, after its specification (github.com/Cyan4973/xxHash,
/// doc/xxhash_spec.md). The same on every machine.
HCTR_API std::uint64_t xxh64(const void* data, std::size_t bytes, std::uint64_t seed);

/// The keys of one field: `seed` is the field's own, so that fields do not share keys.
struct FieldKeys {
  std::uint64_t seed = 0;
  std::int64_t missing = 0;  ///< of nulls and NaN
};

/// Writes the key of each of the `array.length` values of a column to `keys`, from 0 to 2^63 - 2:
/// a negative key, or the reserved one, is never among them.
///
/// - Text (utf8, large, view) and binary: XXH64 of the bytes.
/// - Integers and booleans: XXH64 of the 8 bytes of the value as int64 (or uint64 beyond it).
/// - Floats: as the integer they equal, so that 1.0 is 1; else XXH64 of the 8 bytes of the double
///   with the seed's complement.
///
/// A key depends on its value and the field alone. Throws DataError for other types, and for
/// offsets and views that lie outside.
HCTR_API void hash_keys(ThreadPool& pool, const ArrowSchema& schema, const ArrowArray& array,
                        const FieldKeys& field, std::int64_t* keys);

/// Gives every key that is neither `missing` nor among the ascending `known` ones the key `rare`.
HCTR_API void replace_unknown_keys(ThreadPool& pool, std::span<std::int64_t> keys,
                                   std::span<const std::int64_t> known, std::int64_t missing,
                                   std::int64_t rare);

}  // namespace hugectr
