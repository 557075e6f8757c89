// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/export.hpp"
#include "core/cpp/data/file_bytes.hpp"

namespace hugectr {

/// What to do with a table in text that was given as something else: the end of a message.
inline constexpr const char* kTextTableHint =
    "; this looks like a table in text (CSV): read it and give the reader what "
    "hugectr.data.from_arrow or from_frame makes of it";

/// Whether a file begins as a table in text does: a first line of text with a separator. Numbers in
/// binary have bytes that are no text among the first few.
HCTR_API bool begins_as_text_table(const RandomAccessFile& file);

}  // namespace hugectr
