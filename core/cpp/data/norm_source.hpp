// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "core/cpp/data/batch_source.hpp"

namespace hugectr {

enum class Check { Sum, None };

/// The Norm format: a file list (line 1 the count, then one path a line, relative to the working
/// directory) of files with a 64-byte header and label | dense | (nnz, keys) a slot per sample;
/// with Check::Sum every record is framed as int32 length | payload | int8 sum of bytes.
/// Files are read with pread, so that a file that shrinks is an error, not a signal.
HCTR_API std::unique_ptr<IBatchSource> make_norm_source(const std::string& file_list,
                                                        const InputLayout& layout, Check check,
                                                        bool repeat, OnBadData on_bad_data);

}  // namespace hugectr
