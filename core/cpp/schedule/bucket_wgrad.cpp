// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/schedule/bucket_wgrad.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/cpp/base/bytes_variable.hpp"
#include "core/cpp/base/error.hpp"
#include "core/cpp/comm/collective_ops.hpp"

namespace hugectr {
namespace {

/// Records up to and including the last of forward and backward that writes (into) a tensor, by its
/// id.
std::map<int, std::size_t> written_after(const StepSchedule& schedule) {
  std::map<int, std::size_t> after;
  for (std::size_t i = 0; i < schedule.records().size(); ++i) {
    const OpRecord& record = schedule.records()[i];
    if (record.phase > Phase::Backward) break;
    record.op.for_each_tensor([&](const char*, Access access, const TensorRef& ref) {
      if (access == Access::In || ref.id < 0) return;
      after[ref.id] = i + 1;
      const int base = schedule.tensors()[static_cast<std::size_t>(ref.id)].base;
      if (base >= 0) after[base] = i + 1;
    });
  }
  return after;
}

struct Bucket {
  std::size_t first, last;  ///< elements [first, last) of the flat buffer
  std::size_t after;        ///< records that come before its sum
  GradientSum sum = GradientSum::Beside;
};

/// Elements at the beginning of the buffer whose sum comes behind backward: whole parameters.
std::size_t elements_behind(const std::vector<GradientPlace>& places, std::size_t size,
                            std::size_t bytes) {
  const std::size_t most = bytes / sizeof(float);
  if (size <= most) return size;
  std::size_t behind = 0;
  for (const GradientPlace& place : places) {
    if (place.offset <= most) behind = std::max(behind, place.offset);
  }
  return behind;
}

}  // namespace

std::size_t bucket_bytes_wanted() {
  return bytes_variable("HUGECTR_BUCKET_BYTES", std::size_t{4} << 20);
}

std::size_t behind_bytes_wanted() {
  return bytes_variable("HUGECTR_BEHIND_BYTES", std::size_t{64} << 20);
}

void bucket_wgrad(StepSchedule& schedule, const std::string& wgrad,
                  const std::vector<GradientPlace>& places, std::size_t bucket_bytes,
                  std::size_t behind_bytes) {
  const int flat = schedule.id(wgrad);
  const std::size_t size = num_elements(schedule.ref(flat).shape);
  const std::map<int, std::size_t> after = written_after(schedule);
  const auto when = [&](int id) {
    const auto found = after.find(id);
    return found == after.end() ? 0 : found->second;
  };

  const std::size_t behind = elements_behind(places, size, behind_bytes);
  std::vector<Bucket> buckets;
  Bucket open{size, size, when(flat)};
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    HCTR_CHECK(place->offset <= open.first, "bucket_wgrad: '", place->name,
               "' does not lie before the parameters after it");
    open.first = place->offset;
    if (schedule.has(place->name)) {
      open.after = std::max(open.after, when(schedule.id(place->name)));
    }
    const bool all = std::next(place) == places.rend();
    if (all) open.first = 0;
    const bool full = (open.last - open.first) * sizeof(float) >= bucket_bytes;
    if (!all && open.first != behind && (!full || open.first < behind)) continue;
    buckets.push_back(open);
    // The lane runs in order: a sum can not come before the one of the bucket before.
    open = {open.first, open.first, open.after};
  }
  if (behind > 0) {
    buckets.back().after = schedule.records().size();
    buckets.back().sum = GradientSum::Behind;
  }

  std::vector<OpRecord> records;
  auto bucket = buckets.begin();
  const auto add_due = [&](std::size_t done) {
    for (; bucket != buckets.end() && bucket->after <= done; ++bucket) {
      const std::size_t number = static_cast<std::size_t>(bucket - buckets.begin());
      const std::string name = concat(wgrad, "@bucket", number);
      TensorRef part = schedule.add_tensor(name, {bucket->last - bucket->first}, TensorRole::View);
      ScheduleTensor& tensor = schedule.tensors()[static_cast<std::size_t>(part.id)];
      tensor.base = flat;
      tensor.offset = bucket->first;
      records.push_back({AllReduce{.data = schedule.ref(part.id)}, Phase::Backward,
                         concat("exchange_wgrad ", number), bucket->sum});
    }
  };
  std::vector<OpRecord> before = std::move(schedule.records());
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].phase == Phase::Backward) add_due(i);
    if (before[i].phase > Phase::Backward) add_due(before.size());
    records.push_back(std::move(before[i]));
  }
  add_due(before.size());
  schedule.records() = std::move(records);
}

}  // namespace hugectr
