// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/embedding/table/row_bag.hpp"

/// The original's file layouts, little-endian, no padding. Every function throws DataError naming
/// the file, what was found and what was expected.
namespace hugectr {

/// Raw float32 array: dense weights and dense optimizer states.
HCTR_API void write_floats(const std::string& file, const std::vector<float>& values);
/// Reads exactly `count` floats; a file of another size is an error that says both sizes.
HCTR_API std::vector<float> read_floats(const std::string& file, std::size_t count,
                                        const std::string& what);

/// Folder of 3.1+: `key` int64 x n, `emb_vector` float32 x n x d and, for Localized tables,
/// `slot_id` uint64 x n. Row i of the files belong together.
HCTR_API void write_sparse_folder(const std::string& folder, const BufferBag& rows);
HCTR_API BufferBag read_sparse_folder(const std::string& folder, std::size_t vec_size,
                                      bool with_slots);

/// Single file of <= 3.0: rows of [key (4 or 8 bytes)][uint64 slot_id if Localized][float32 x d].
HCTR_API BufferBag read_sparse_file(const std::string& file, std::size_t vec_size, bool i64_keys,
                                    bool with_slots);

/// One state array after the other (n * d numbers, or n), rows in the order of the `key` file
/// (sorted by slot and key). The original wrote max_vocabulary_size rows by GPU and row index,
/// which no other device count could read.
HCTR_API void write_sparse_states(const std::string& file, const BufferBag& rows);
/// Fills rows.states for the keys already in `rows`: an array for each of these numbers a row.
HCTR_API void read_sparse_states(const std::string& file, const std::vector<std::size_t>& widths,
                                 BufferBag& rows);

}  // namespace hugectr
