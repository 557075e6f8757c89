// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <vector>

#include "core/cpp/memory/memory_resource.hpp"
#include "core/cpp/schedule/passes.hpp"

namespace hugectr {
namespace {

/// Records between which a tensor's memory is in use, both included.
struct Lifetime {
  std::size_t first = std::numeric_limits<std::size_t>::max();
  std::size_t last = 0;
  bool used() const { return first <= last; }
  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

struct Placed {
  int id;
  std::size_t offset, bytes;
};

std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kStep = MemoryResource::kAlignment;
  return (bytes + kStep - 1) / kStep * kStep;
}

/// Lifetimes by tensor id, those of views counted for their base.
std::vector<Lifetime> lifetimes(const StepSchedule& schedule) {
  const auto& tensors = schedule.tensors();
  const auto& records = schedule.records();
  std::vector<Lifetime> result(tensors.size());
  const auto use = [&](std::size_t id, std::size_t at) {
    if (tensors[id].base >= 0) id = static_cast<std::size_t>(tensors[id].base);
    result[id].first = std::min(result[id].first, at);
    result[id].last = std::max(result[id].last, at);
  };
  for (std::size_t i = 0; i < records.size(); ++i) {
    records[i].op.for_each_tensor([&](const char*, Access, const TensorRef& ref) {
      if (ref.id >= 0) use(static_cast<std::size_t>(ref.id), i);
    });
  }
  for (std::size_t id = 0; id < tensors.size(); ++id) {
    if (!tensors[id].kept) continue;
    use(id, 0);
    use(id, 0);
    use(id, records.size());
  }
  return result;
}

/// Lowest offset where `bytes` fit beside the placed tensors that live at the same time.
std::size_t lowest_gap(const std::vector<Placed>& placed, const std::vector<Lifetime>& life, int id,
                       std::size_t bytes) {
  std::vector<const Placed*> busy;
  for (const Placed& p : placed) {
    if (life[static_cast<std::size_t>(p.id)].overlaps(life[static_cast<std::size_t>(id)])) {
      busy.push_back(&p);
    }
  }
  std::sort(busy.begin(), busy.end(),
            [](const Placed* a, const Placed* b) { return a->offset < b->offset; });
  std::size_t offset = 0;
  for (const Placed* p : busy) {
    if (offset + bytes <= p->offset) break;
    offset = std::max(offset, p->offset + p->bytes);
  }
  return offset;
}

}  // namespace

MemoryPlan plan_memory(const StepSchedule& schedule, bool share) {
  const auto& tensors = schedule.tensors();
  std::vector<Lifetime> life = lifetimes(schedule);

  std::vector<int> order;
  for (std::size_t id = 0; id < tensors.size(); ++id) {
    const TensorRole role = tensors[id].role;
    if (role == TensorRole::External || role == TensorRole::View || !life[id].used()) continue;
    if (role == TensorRole::Activation || !share) {
      life[id] = {0, std::numeric_limits<std::size_t>::max()};  // keeps its memory to itself
    }
    order.push_back(static_cast<int>(id));
  }
  const auto bytes_of = [&](int id) {
    const ScheduleTensor& tensor = tensors[static_cast<std::size_t>(id)];
    return aligned(memory_elements(tensor) * size_of(tensor.dtype));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return bytes_of(a) > bytes_of(b); });

  MemoryPlan plan;
  std::vector<Placed> placed;
  for (const int id : order) {
    const std::size_t bytes = bytes_of(id);
    const std::size_t offset = lowest_gap(placed, life, id, bytes);
    placed.push_back({id, offset, bytes});
    plan.offsets[id] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    plan.bytes_unshared += bytes;
  }
  return plan;
}

}  // namespace hugectr
