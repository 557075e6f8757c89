// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/cpp/ops/linear.hpp"
#include "core/cpp/ops/regularizer.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {
namespace {

/// Which elements of the tensors that own memory have been written.
class Written {
 public:
  explicit Written(const std::vector<ScheduleTensor>& tensors) : tensors_(tensors) {}

  /// Whether `id` is a parameter's gradient, or rows of one, that no record has touched.
  bool untouched(int id) const {
    const Range range = range_of(id);
    if (tensors_[static_cast<std::size_t>(range.root)].role != TensorRole::External) return false;
    const auto it = ranges_.find(range.root);
    return it == ranges_.end() ||
           std::none_of(it->second.begin(), it->second.end(), [&](const Range& other) {
             return range.begin < other.end && other.begin < range.end;
           });
  }
  void add(int id) {
    const Range range = range_of(id);
    ranges_[range.root].push_back(range);
  }

 private:
  struct Range {
    int root;
    std::size_t begin, end;  ///< elements of root
  };
  Range range_of(int id) const {
    const ScheduleTensor& tensor = tensors_[static_cast<std::size_t>(id)];
    return {tensor.base >= 0 ? tensor.base : id, tensor.offset,
            tensor.offset + memory_elements(tensor)};
  }

  const std::vector<ScheduleTensor>& tensors_;
  std::map<int, std::vector<Range>> ranges_;
};

}  // namespace

void overwrite_gradients(StepSchedule& schedule) {
  Written written(schedule.tensors());
  for (OpRecord& record : schedule.records()) {
    // It writes all gradients at once, through the tensor that they are parts of.
    if (record.op.get_if<RegularizerGrad>() != nullptr) return;
    const auto is_first = [&](const TensorRef& ref) {
      return ref.empty() || (ref.id >= 0 && written.untouched(ref.id));
    };
    if (const auto* linear = record.op.get_if<LinearBwd>()) {
      LinearBwd first = *linear;
      first.overwrite = is_first(first.dw) && is_first(first.db);
      first.overwrite_below = is_first(first.db_below);
      record.op = first;
    }
    std::as_const(record.op).for_each_tensor([&](const char*, Access access, const TensorRef& ref) {
      if (access != Access::In && ref.id >= 0) written.add(ref.id);
    });
  }
}

}  // namespace hugectr
