// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/schedule/bucket_wgrad.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <system_error>
#include <utility>

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
};

}  // namespace

std::size_t bucket_bytes_wanted() {
  const char* text = std::getenv("HUGECTR_BUCKET_BYTES");
  if (text == nullptr || *text == '\0') return std::size_t{4} << 20;
  std::size_t bytes = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, bytes);
  HCTR_CHECK(error == std::errc{} && stop == end && bytes > 0, "HUGECTR_BUCKET_BYTES=", text,
             ": give a number of bytes from 1 on");
  return bytes;
}

void bucket_wgrad(StepSchedule& schedule, const std::string& wgrad,
                  const std::vector<GradientPlace>& places, std::size_t bucket_bytes) {
  const int flat = schedule.id(wgrad);
  const std::size_t size = num_elements(schedule.ref(flat).shape);
  const std::map<int, std::size_t> after = written_after(schedule);
  const auto when = [&](int id) {
    const auto found = after.find(id);
    return found == after.end() ? 0 : found->second;
  };

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
    if (!all && (open.last - open.first) * sizeof(float) < bucket_bytes) continue;
    if (all) open.first = 0;
    buckets.push_back(open);
    // The lane runs in order: a sum can not come before the one of the bucket before.
    open = {open.first, open.first, open.after};
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
                         concat("exchange_wgrad ", number), true});
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
