// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/regular_file.hpp"

namespace hugectr {
namespace {

/// More records than any file holds: the header is damaged.
constexpr std::int64_t kAbsurdRecords = std::int64_t{1} << 40;

}  // namespace

std::string norm_message(const std::string& path, std::uint64_t offset, const std::string& what) {
  return concat("file '", path, "': byte offset ", offset, ": ", what);
}

std::string other_key_width_hint(bool i64_keys) {
  return concat("; the records do add up with ", i64_keys ? "uint32" : "int64",
                " keys: set i64_input_key=", i64_keys ? "False" : "True");
}

NormFile::NormFile(std::shared_ptr<const std::string> path, const NormRecordShape& shape,
                   const InputLayout& layout)
    : path_(std::move(path)), shape_(shape) {
  const OpenedFile file = open_regular_file(*path_);
  if (file.descriptor < 0) {
    fail(0, concat(file.refusal,
                   "; correct the file list (its paths are relative to the working "
                   "directory)"));
  }
  descriptor_ = file.descriptor;
  size_ = file.size;
  try {
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
    read_header(layout);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

NormFile::~NormFile() { ::close(descriptor_); }

void NormFile::fail(std::uint64_t offset, const std::string& what) const {
  throw DataError(norm_message(*path_, offset, what));
}

std::size_t NormFile::read(std::uint64_t offset, std::uint8_t* to, std::size_t bytes) const {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(descriptor_, to + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(offset + done, concat("can not be read (", std::strerror(errno), ")"));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void NormFile::read_header(const InputLayout& layout) {
  std::uint8_t raw[sizeof(NormHeader) + 5] = {};
  const std::size_t got = read(0, raw, sizeof(raw));
  const std::size_t frame = shape_.framed ? 4 : 0;
  first_record_ = sizeof(NormHeader) + shape_.frame_bytes();
  // The other check type is looked for first: it is a wrong setting, not a damaged file.
  const auto first = load<std::int32_t>(raw);
  if (shape_.framed && got >= sizeof(NormHeader) && load<std::int64_t>(raw) == 0) {
    fail(0, "error_check is 0: the file has no checksums; read it with check_type Check_t.Non");
  }
  if (!shape_.framed && got >= 12 && first == sizeof(NormHeader) &&
      load<std::int64_t>(raw + 4) == 1) {
    fail(0, "the file has checksums (error_check is 1); read it with check_type Check_t.Sum");
  }
  if (got < first_record_) {
    fail(got, concat("the file ends inside the header of ", first_record_,
                     " bytes; restore the file or take it off the list"));
  }
  if (shape_.framed && first != sizeof(NormHeader)) {
    fail(0, concat("length of the header is ", first, ", allowed is ", sizeof(NormHeader),
                   "; this is no Norm file with checksums, or it is damaged"));
  }
  const auto header = load<NormHeader>(raw + frame);
  if (shape_.framed && byte_sum(raw + 4, sizeof(NormHeader)) != raw[4 + sizeof(NormHeader)]) {
    fail(0, "the header's checksum is wrong; restore the file or take it off the list");
  }
  const auto field = [&](std::size_t index, const char* name, std::int64_t found,
                         std::size_t allowed, const char* way_out) {
    if (found == static_cast<std::int64_t>(allowed)) return;
    fail(frame + 8 * index,
         concat(name, " in the header is ", found, ", allowed is ", allowed, "; ", way_out));
  };
  const char* const damaged = "the header is damaged, restore the file";
  const char* const input = "the model's Input and the data must agree";
  field(0, "error_check", header.error_check, shape_.framed ? 1 : 0, damaged);
  if (header.number_of_records < 0 || header.number_of_records > kAbsurdRecords) {
    fail(frame + 8, concat("number_of_records in the header is ", header.number_of_records,
                           ", allowed are 0 to 2^40; ", damaged));
  }
  field(2, "label_dim", header.label_dim, layout.label_dim, input);
  field(3, "dense_dim", header.dense_dim, layout.dense_dim, input);
  field(4, "slot_num", header.slot_num, shape_.total_slots,
        "the sum of slot_num over the model's sparse inputs and the data must agree");
  records_ = static_cast<std::uint64_t>(header.number_of_records);
}

std::size_t NormFile::record_bytes() const {
  const std::size_t least = shape_.min_payload + shape_.frame_bytes();
  if (records_ == 0) return least;
  const std::uint64_t mean = (size_ - std::min(size_, first_record_) + records_ - 1) / records_;
  return std::clamp<std::size_t>(mean, least, shape_.max_payload + shape_.frame_bytes());
}

std::string NormFile::key_width_hint(const InputLayout& layout) const {
  const bool i64 = shape_.key_bytes == 8;
  const NormRecordShape other(layout, shape_.framed, i64 ? 4 : 8);
  std::vector<std::uint8_t> head(1 << 16);
  head.resize(read(first_record_, head.data(), head.size()));
  const std::size_t frame = shape_.framed ? 4 : 0;
  std::size_t at = 0;
  std::uint64_t seen = 0;
  for (; seen < std::min<std::uint64_t>(records_, 16) && head.size() - at >= frame; ++seen) {
    const std::uint8_t* p = head.data() + at;
    const NormWalk walk = walk_payload(other, p + frame, head.size() - at - frame, false);
    if (walk.end == NormWalk::End::BadNnz) return {};
    if (walk.end == NormWalk::End::OutOfBytes) break;
    if (shape_.framed && load<std::int32_t>(p) != static_cast<std::int64_t>(walk.bytes)) return {};
    at += walk.bytes + shape_.frame_bytes();
    if (at > head.size()) break;
  }
  if (seen == 0 || shape_.total_slots == 0) return {};
  return other_key_width_hint(i64);
}

}  // namespace hugectr
