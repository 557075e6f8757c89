// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/file_bytes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/regular_file.hpp"

namespace hugectr {

RandomAccessFile::RandomAccessFile(std::string path, bool direct) : path_(std::move(path)) {
  const OpenedFile file = open_regular_file(path_, direct);
  if (file.descriptor < 0) throw DataError(concat("data file '", path_, "' ", file.refusal));
  descriptor_ = file.descriptor;
  size_ = file.size;
  direct_ = direct && (::fcntl(descriptor_, F_GETFL) & O_DIRECT) != 0;
}

RandomAccessFile::~RandomAccessFile() { ::close(descriptor_); }

void RandomAccessFile::read(std::uint64_t offset, std::size_t bytes, FileBytes& to) const {
  const std::size_t unit = direct_ ? kAlignment : 1;
  const std::uint64_t first = offset / unit * unit;
  const std::size_t lead = static_cast<std::size_t>(offset - first);
  const std::size_t wanted = lead + bytes;
  const std::size_t room = (wanted + unit - 1) / unit * unit;
  // Room for moving the start to an aligned address.
  if (to.storage_.size() < room + unit) to.storage_.resize(room + unit);
  const auto address = reinterpret_cast<std::uintptr_t>(to.storage_.data());
  const std::size_t start = (unit - address % unit) % unit;
  std::uint8_t* target = to.storage_.data() + start;
  for (std::size_t got = 0; got < wanted;) {
    const ssize_t n =
        ::pread(descriptor_, target + got, room - got, static_cast<off_t>(first + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      throw DataError(
          concat("data file '", path_, "', byte ", first + got, ": ", std::strerror(errno)));
    }
    if (n == 0) {
      throw DataError(concat("data file '", path_, "' ends at byte ", first + got, ", ",
                             offset + bytes,
                             " bytes were there when it was opened: it was changed "
                             "while it was read"));
    }
    got += static_cast<std::size_t>(n);
    // A direct read that stops off the grid has met the end of the file.
    if (direct_ && got < wanted && got % unit != 0) {
      throw DataError(concat("data file '", path_, "' ends at byte ", first + got,
                             ": it was changed while it was read"));
    }
  }
  to.begin_ = start + lead;
  to.size_ = bytes;
}

}  // namespace hugectr
