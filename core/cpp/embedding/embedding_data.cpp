// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/embedding_data.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "core/cpp/ops/embedding_init.hpp"
#include "core/cpp/ops/filter_keys.hpp"
#include "core/cpp/optimizers/optimizers.hpp"

namespace hugectr {
namespace {

constexpr float kInitialBound = 0.05f;

/// Rows to reserve address space for when there is no budget: more than the machine's memory could
/// hold. A device has no more memory than its host in any sensible machine, and mapping fails with
/// a clear message where it does.
std::size_t rows_of_all_memory(std::size_t vec_size) {
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                     static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::clamp<std::size_t>(bytes / (vec_size * sizeof(float)), 1, kNoRow - 1);
}

/// Bounds of new rows: one, or one a slot.
std::vector<double> initial_bounds(const SparseEmbeddingHashParams& params) {
  if (params.type != EmbeddingType::LocalizedSlotSparseEmbeddingHash ||
      params.slot_size_array.empty()) {
    return {kInitialBound};
  }
  std::vector<double> bounds;
  for (const std::size_t size : params.slot_size_array) {
    bounds.push_back(std::sqrt(1.0 / static_cast<double>(std::max<std::size_t>(size, 1))));
  }
  return bounds;
}

}  // namespace

std::size_t row_budget(const SparseEmbeddingHashParams& params, std::size_t rank,
                       std::size_t device_count) {
  if (params.type != EmbeddingType::LocalizedSlotSparseEmbeddingHash ||
      params.slot_size_array.empty()) {
    return params.max_vocabulary_size_per_gpu;
  }
  std::size_t rows = 0;
  for (std::size_t slot = rank; slot < params.slot_num; slot += device_count) {
    rows += params.slot_size_array[slot];
  }
  return std::max<std::size_t>(rows, 1);
}

template <class Key>
EmbeddingData<Key>::EmbeddingData(const SparseEmbeddingHashParams& params, GPUResource& resource,
                                  std::size_t device_count)
    : gpu(resource),
      memory(resource.memory_resource()),
      owner(concat(params.name, " on ", to_string(resource.device()))),
      distribution(make_slot_distribution(params.type, params.slot_num, params.embedding_vec_size,
                                          resource.get_global_id(), device_count)),
      max_rows(row_budget(params, resource.get_global_id(), device_count)),
      has_budget(max_rows > 0),
      table(memory, owner, has_budget ? max_rows : rows_of_all_memory(params.embedding_vec_size),
            params.type == EmbeddingType::LocalizedSlotSparseEmbeddingHash,
            resource.staging_resource()) {
  max_rows = table.max_rows();
  const std::size_t d = params.embedding_vec_size;
  weights = GrowableTensor(*memory, TensorScalarType::Float32, d, max_rows, owner + " weights");
  for (const std::size_t width : state_widths(params.opt_params, d)) {
    states.emplace_back(*memory, TensorScalarType::Float32, width, max_rows,
                        concat(owner, " optimizer state ", states.size()));
  }
  if (keeps_last_step(params.opt_params)) {
    last_step = GrowableTensor(*memory, TensorScalarType::Int64, 1, max_rows, owner + " last step");
  }
  for (LookupPlan& plan : plans) {
    plan.ready = gpu.create_event();
    plan.released = gpu.create_event();
  }
  auto staging =
      DeviceBuffer2::create(owner + " own count", DeviceAllocator(gpu.staging_resource()));
  staging->reserve({1}, &own_count, "own count");
  staging->allocate();
  exchange_arena = DeviceBuffer2::create(owner + " exchange", DeviceAllocator(memory));
  if (device_count > 1) {
    const std::size_t batch = std::max(params.batch_size, params.batch_size_eval);
    pooled = exchange_arena->reserve({distribution->pooled_vectors(batch), d}, params.output_type,
                                     "pooled vectors");
    packed = exchange_arena->reserve({distribution->packed_vectors(batch), d}, params.output_type,
                                     "packed vectors");
  }
  exchange_arena->allocate();
  if (device_count > 1 && params.exchange != ExchangeType::Pooled) {
    unique = std::make_unique<UniqueExchange>(params, gpu, owner, *distribution);
  }
}

template <class Key>
void EmbeddingData<Key>::grow_rows(std::size_t rows) {
  weights.grow_to(rows);
  for (GrowableTensor& state : states) state.grow_to(rows);
  if (last_step.max_rows() > 0) last_step.grow_to(rows);
  if (stamps.max_rows() > 0) stamps.grow_to(rows);
}

template <class Key>
std::vector<TensorRef> EmbeddingData<Key>::state_rows(std::size_t rows) const {
  std::vector<TensorRef> refs;
  for (const GrowableTensor& state : states) refs.push_back(state.ref(0, rows));
  return refs;
}

template <class Key>
TensorRef EmbeddingData<Key>::last_step_rows(std::size_t rows) const {
  return last_step.max_rows() > 0 ? last_step.ref(0, rows) : TensorRef{};
}

template <class Key>
TensorRef EmbeddingData<Key>::stamp_rows(std::size_t rows) const {
  return stamps.max_rows() > 0 ? stamps.ref(0, rows) : TensorRef{};
}

template <class Key>
void EmbeddingData<Key>::init_rows(const OpContext& context,
                                   const SparseEmbeddingHashParams& params, std::uint64_t seed,
                                   std::size_t first, std::size_t last, bool with_weights) const {
  if (first >= last) return;
  const std::vector<float> starts = state_starts(params.opt_params);
  run(context, EmbeddingInit{.row_keys = table.row_keys(last),
                             .row_slots = table.row_slots(last),
                             .weights = with_weights ? weights.ref(0, last) : TensorRef{},
                             .last_step = last_step_rows(last),
                             .states = state_rows(last),
                             .first = static_cast<std::int64_t>(first),
                             .count = static_cast<std::int64_t>(last - first),
                             .seed = seed,
                             .table = params.table_id,
                             .bounds = initial_bounds(params),
                             .initial_states = {starts.begin(), starts.end()}});
}

template <class Key>
std::size_t EmbeddingData<Key>::size_in_bytes() const {
  std::size_t bytes = table.size_in_bytes() + weights.size_in_bytes() + last_step.size_in_bytes() +
                      stamps.size_in_bytes();
  for (const GrowableTensor& state : states) bytes += state.size_in_bytes();
  return bytes;
}

template struct EmbeddingData<std::uint32_t>;
template struct EmbeddingData<std::int64_t>;

}  // namespace hugectr
