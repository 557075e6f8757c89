// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/cpp/comm/process_group.hpp"
#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/block_format.hpp"

namespace hugectr {

enum class Check { Sum, None };

/// The Norm format: a file list (line 1 the count, then one path a line, relative to the working
/// directory) of files with a 64-byte header and label | dense | (nnz, keys) a slot per sample;
/// with Check::Sum every record is framed as int32 length | payload | int8 sum of bytes.
/// Files are read with pread, so that a file that shrinks is an error, not a signal.
///
/// A slot may hold 0 to max_feature_num keys of its sparse input, all slots of a sample together no
/// more than that. Everything else is damage: a DataError with file and byte offset, or with
/// OnBadData::Skip
/// - a wrong checksum or content: the sample keeps its place with weight 0 and counts as bad;
/// - a lost record boundary: the rest of the file is dropped and counted by the header's number;
/// - a header that is damaged or does not fit the model: the file is dropped and counts as one.
/// A file list that is damaged, or of whose files nothing at all can be read, is always an error.
///
/// Blocks are ranges of records of at most about `range_bytes` (0: 1 MiB in a job, else what a
/// batch takes), but at least a record. One process (`processes` is null) finds them as it reads;
/// those of a job that share the reading (a group of its own) make an index of all files together
/// first, each scanning its part once. Samples, errors and positions are the same; only a list of
/// whose files nothing can be read is refused by a job when it is set, by one process when its
/// first batch is asked for. In a job set_source() is collective, "" makes a new index when a file
/// has changed.
HCTR_API std::unique_ptr<IBlockFormat> make_norm_format(const std::string& file_list,
                                                        const InputLayout& layout, Check check,
                                                        OnBadData on_bad_data,
                                                        std::shared_ptr<IProcessGroup> processes,
                                                        std::uint64_t range_bytes = 0);

}  // namespace hugectr
