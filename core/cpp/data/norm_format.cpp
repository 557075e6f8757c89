// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_format.hpp"

#include <limits>
#include <utility>

#include "core/cpp/data/norm_pass.hpp"
#include "core/cpp/data/norm_ranges.hpp"

namespace hugectr {
namespace {

/// One process: its blocks are found as they are read.
class NormFormat final : public IBlockFormat {
 public:
  NormFormat(const std::string& file_list, const InputLayout& layout, bool framed,
             OnBadData on_bad_data, std::uint64_t range_bytes)
      : reading_(layout, framed, on_bad_data, range_bytes) {
    set_source(file_list);
  }

  const std::vector<std::string>& files() const override { return files_.paths; }
  std::unique_ptr<IBlockWalk> walk(const ReadPosition& from) override {
    return std::make_unique<NormPass>(reading_, files_, from);
  }
  void set_source(const std::string& source) override { files_ = files_.other(source); }

 private:
  NormReading reading_;
  NormFiles files_;
};

}  // namespace

std::unique_ptr<IBlockFormat> make_norm_format(const std::string& file_list,
                                               const InputLayout& layout, Check check,
                                               OnBadData on_bad_data,
                                               std::shared_ptr<IProcessGroup> processes,
                                               std::uint64_t range_bytes) {
  const bool framed = check == Check::Sum;
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  if (range_bytes == 0) range_bytes = processes ? std::uint64_t{1} << 20 : most;
  if (!processes) {
    return std::make_unique<NormFormat>(file_list, layout, framed, on_bad_data, range_bytes);
  }
  return make_norm_ranges(file_list, layout, framed, on_bad_data, range_bytes,
                          std::move(processes));
}

}  // namespace hugectr
