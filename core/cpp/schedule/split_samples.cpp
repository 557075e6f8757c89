// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/schedule/split_samples.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cpp/ops/add.hpp"

namespace hugectr {
namespace {

bool is_once(const OpRecord& record) { return record.once || record.phase > Phase::Backward; }

/// What happens to a tensor: one for all, rows for each micro-batch, or a tensor for each.
enum class Fate { Shared, Rows, Apart, Sum };

class Splitting {
 public:
  Splitting(StepSchedule& schedule, std::size_t count, const SampleTensors& known)
      : schedule_(schedule), count_(count), size_(schedule.tensors().size()) {
    std::vector<bool> in_parts(size_, false), once(size_, false), kept(size_, false);
    for (const OpRecord& record : std::as_const(schedule).records()) {
      record.op.for_each_tensor([&](const char*, Access, const TensorRef& ref) {
        if (ref.id < 0) return;
        (is_once(record) ? once : in_parts)[root(ref.id)] = true;
      });
    }
    for (std::size_t id = 0; id < size_; ++id) {
      const ScheduleTensor& tensor = schedule.tensors()[id];
      if (tensor.kept) kept[root(static_cast<int>(id))] = true;
    }
    for (std::size_t id = 0; id < size_; ++id) {
      const std::size_t at = root(static_cast<int>(id));
      fates_.push_back(fate_of(schedule.tensors()[at], known, in_parts[at], once[at], kept[at]));
      HCTR_CHECK(fates_.back() != Fate::Apart || !once[at], "micro-batches: '",
                 schedule.tensors()[at].name, "' is read by what runs once a step");
    }
  }

  void make_parts() {
    parts_.resize(count_);
    const std::vector<ScheduleTensor> before = schedule_.tensors();
    for (std::size_t m = 0; m < count_; ++m) {
      for (std::size_t id = 0; id < size_; ++id) {
        if (fates_[id] != Fate::Shared && before[id].base < 0) add_part(before, id, m);
      }
      for (std::size_t id = 0; id < size_; ++id) {  // their bases are there
        if (fates_[id] != Fate::Shared && before[id].base >= 0) add_part(before, id, m);
      }
    }
    for (std::size_t id = 0; id < size_; ++id) {
      if (fates_[id] == Fate::Rows) schedule_.tensors()[id].shape[0] *= count_;
    }
  }

  /// The records of a phase: those before the first that runs for each micro-batch, these for each
  /// of them, sums, and the rest.
  void add_phase(std::span<const OpRecord> records, std::vector<OpRecord>& result) const {
    const auto first = std::find_if_not(records.begin(), records.end(), is_once);
    result.insert(result.end(), records.begin(), first);
    for (std::size_t m = 0; m < count_; ++m) {
      for (auto record = first; record != records.end(); ++record) {
        if (!is_once(*record)) result.push_back(of_part(*record, m));
      }
    }
    if (!records.empty() && records.front().phase == Phase::Loss) add_sums(result);
    std::copy_if(first, records.end(), std::back_inserter(result), is_once);
  }

 private:
  std::size_t root(int id) const {
    const int base = schedule_.tensors()[static_cast<std::size_t>(id)].base;
    return static_cast<std::size_t>(base >= 0 ? base : id);
  }

  static Fate fate_of(const ScheduleTensor& root, const SampleTensors& known, bool in_parts,
                      bool once, bool kept) {
    if (known.sums.contains(root.name)) return Fate::Sum;
    if (root.role == TensorRole::External) {
      return known.external.contains(root.name) ? Fate::Rows : Fate::Shared;
    }
    if (!in_parts && once) return Fate::Shared;
    return kept || root.role == TensorRole::Activation ? Fate::Rows : Fate::Apart;
  }

  void add_part(const std::vector<ScheduleTensor>& before, std::size_t id, std::size_t m) {
    const ScheduleTensor& whole = before[id];
    const std::string name = name_in_micro_batch(whole.name, m);
    const bool rows = fates_[id] == Fate::Rows;
    const TensorRole role = rows || whole.base >= 0 ? TensorRole::View : TensorRole::Gradient;
    const TensorRef ref = schedule_.add_tensor(name, whole.shape, role, whole.dtype);
    parts_[m][static_cast<int>(id)] = ref.id;
    ScheduleTensor& part = schedule_.tensors()[static_cast<std::size_t>(ref.id)];
    part.row_stride = whole.row_stride;
    if (role != TensorRole::View) return;
    const std::size_t at = root(static_cast<int>(id));
    part.base = rows ? static_cast<int>(at) : parts_[m].at(static_cast<int>(at));
    part.offset = whole.offset + (rows ? m * memory_elements(before[at]) : 0);
  }

  OpRecord of_part(const OpRecord& record, std::size_t m) const {
    OpRecord part = record;
    part.op.for_each_tensor([&](const char*, Access, TensorRef& ref) {
      const auto found = parts_[m].find(ref.id);
      if (found != parts_[m].end()) ref = schedule_.ref(found->second);
    });
    return part;
  }

  void add_sums(std::vector<OpRecord>& result) const {
    for (std::size_t id = 0; id < size_; ++id) {
      if (fates_[id] != Fate::Sum) continue;
      AddFwd sum;
      for (std::size_t m = 0; m < count_; ++m) {
        sum.xs.push_back(schedule_.ref(parts_[m].at(static_cast<int>(id))));
      }
      sum.y = schedule_.ref(static_cast<int>(id));
      OpRecord record{sum, Phase::Loss, "micro-batches"};
      record.once = true;
      result.push_back(std::move(record));
    }
  }

  StepSchedule& schedule_;
  std::size_t count_, size_;
  std::vector<Fate> fates_;
  std::vector<std::map<int, int>> parts_;  ///< by micro-batch: ids of tensors, and of their parts
};

}  // namespace

std::string name_in_micro_batch(const std::string& tensor, std::size_t micro_batch) {
  return concat(tensor, "@micro", micro_batch);
}

void split_samples(StepSchedule& schedule, std::size_t count, const SampleTensors& known) {
  Splitting splitting(schedule, count, known);
  splitting.make_parts();
  const std::vector<OpRecord> records = std::move(schedule.records());
  std::vector<OpRecord> result;
  for (auto first = records.begin(); first != records.end();) {
    const auto last = std::find_if(
        first, records.end(), [&](const OpRecord& record) { return record.phase != first->phase; });
    splitting.add_phase({first, last}, result);
    first = last;
  }
  schedule.records() = std::move(result);
  schedule.refresh_refs();
}

}  // namespace hugectr
