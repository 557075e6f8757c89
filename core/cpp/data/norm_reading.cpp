// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_reading.hpp"

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/file_list.hpp"

namespace hugectr {

NormFiles NormFiles::other(const std::string& source) const {
  NormFiles files = source.empty() ? *this : NormFiles{source, read_file_list(source)};
  HCTR_CHECK(!files.paths.empty(), "Norm data: no source is set; pass the path of a file list");
  return files;
}

NormReading::NormReading(const InputLayout& input, bool framed, OnBadData policy,
                         std::uint64_t bytes)
    : layout(input),
      shape(layout, framed, layout.i64_keys ? 8 : 4),
      on_bad_data(policy),
      range_bytes(bytes),
      decoder(layout, shape, on_bad_data, damage) {
  layout.check();
  HCTR_CHECK(shape.min_payload > 0, "Norm data: the model's Input has no label, dense or slot");
}

}  // namespace hugectr
