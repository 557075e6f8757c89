// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/cpp/embedding/storage/segment_file.hpp"

namespace hugectr {

/// Links a sealed segment, or copies it where the file system has no link from one place to the
/// other. A copy is on the disk when this returns; a link is as much on it as the file it is of.
/// The new name survives a loss of power only after sync_folder(). Throws NoRoom or DataError that
/// names file and byte; then nothing was made.
void share_file(const SegmentKind& kind, const std::string& from, const std::string& to);

/// Waits until a file, or the names in a folder, would survive a loss of power. Throws NoRoom or
/// DataError.
void sync_file(const SegmentKind& kind, const std::string& path);
void sync_folder(const SegmentKind& kind, const std::string& path);

/// Makes a folder with all above it that are not there; their names survive a loss of power.
/// Throws NoRoom or DataError.
void make_folder(const SegmentKind& kind, const std::string& path);

}  // namespace hugectr
