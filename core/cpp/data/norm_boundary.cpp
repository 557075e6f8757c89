// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_boundary.hpp"

#include <algorithm>

#include "core/cpp/base/error.hpp"

namespace hugectr {

RecordFit fit_record(const NormRecordShape& shape, const std::uint8_t* p, std::size_t available,
                     std::size_t* payload, std::size_t* needed, std::string* what) {
  if (shape.framed) {
    if (available < 4) {
      *needed = 4;
      return RecordFit::NeedsMore;
    }
    const auto length = load<std::int32_t>(p);
    if (length < static_cast<std::int64_t>(shape.min_payload) ||
        length > static_cast<std::int64_t>(shape.max_payload)) {
      *what = concat(
          "length of the record is ", length, ", allowed are ", shape.min_payload, " to ",
          shape.max_payload,
          " (more keys in a slot than nnz_per_slot allows, or the length of the record before is "
          "wrong)");
      return RecordFit::Lost;
    }
    *payload = static_cast<std::size_t>(length);
    *needed = *payload + 5;
    return available < *needed ? RecordFit::NeedsMore : RecordFit::Whole;
  }
  NormWalk walk = walk_payload(shape, p, available, false);
  if (walk.end == NormWalk::End::Complete) {
    *payload = walk.bytes;
    return RecordFit::Whole;
  }
  if (walk.end == NormWalk::End::OutOfBytes) {
    // How much is missing is not known; a page at a time is enough, and rare.
    *needed = available == 0 ? shape.min_payload : available + 4096;
    return RecordFit::NeedsMore;
  }
  walk = walk_payload(shape, p, available, true);
  *what = concat(walk.what, ", ", walk.bytes, " bytes into the record");
  return RecordFit::Lost;
}

std::string ends_inside_record(const NormFile& file, std::uint64_t record) {
  return concat("the file ends inside record ", record, " of ", file.records());
}

NormLoss norm_surplus(const NormFile& file, const NormRecordShape& shape, const InputLayout& layout,
                      std::uint64_t end_of_records) {
  const std::uint64_t surplus = file.size() - end_of_records;
  const std::uint64_t most = shape.max_payload + shape.frame_bytes();
  return {norm_message(*file.path(), end_of_records,
                       concat(surplus, " bytes follow the last of the ", file.records(),
                              " records that the header promises", file.key_width_hint(layout))),
          std::max<std::uint64_t>(1, surplus / most), true};
}

std::string no_norm_samples(const std::string& file_list, std::size_t files,
                            const std::string& first_damage) {
  return first_damage.empty()
             ? concat("file list '", file_list, "': none of its ", files, " files has any samples")
             : concat("file list '", file_list, "': none of its ", files,
                      " files has samples that can be read; first damage: ", first_damage);
}

}  // namespace hugectr
