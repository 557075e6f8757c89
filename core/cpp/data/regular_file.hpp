// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// What open_regular_file() found.
struct OpenedFile {
  int descriptor = -1;     ///< the caller's to close; below 0: refused
  std::uint64_t size = 0;  ///< when it was opened: who reads no more than this comes to an end
  std::string refusal;     ///< what to say behind the file's name
};

/// The one way in which readers open files: for reading, and only what has a size of its own. A
/// pipe, a socket, a device or a folder is refused without being opened: that alone may block, wake
/// somebody or set something off. `direct`: past the page cache, where the file system can.
HCTR_API OpenedFile open_regular_file(const std::string& path, bool direct = false);

}  // namespace hugectr
