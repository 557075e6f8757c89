// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <utility>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/collection/array_part.hpp"
#include "core/cpp/embedding/collection/caller_order.hpp"
#include "core/cpp/embedding/collection/table_sharing.hpp"
#include "core/cpp/embedding/lookup/lookup_plan.hpp"

/// Sharing as who holds rows does it; as who asks for them, it is in table_sharing.cpp.
namespace hugectr {
namespace {

std::size_t size_from(std::int64_t n) { return static_cast<std::size_t>(n); }

/// The memory of a group's vectors, from its first table that has any.
TensorRef whole_of(std::span<const TensorRef> vectors, std::span<const std::size_t> order) {
  TensorRef whole;
  std::size_t size = 0;
  for (const std::size_t t : order) {
    if (vectors[t].empty()) continue;
    if (whole.empty()) whole = vectors[t];
    size += vectors[t].size();
  }
  return whole.empty() ? whole : array_part(whole, 0, {size});
}

}  // namespace

void TableSharing::answer(SharedBatch& batch, std::span<const std::int64_t> wanted) const {
  const std::size_t count = order_.size();
  HCTR_CHECK(wanted.size() == processes_ * processes_ * count, "a job of ", processes_,
             " processes with ", count, " tables got ", wanted.size(), " counts of rows");
  batch.given = ProcessRows(processes_, count);
  for (std::size_t p = 0; p < processes_; ++p) {
    for (std::size_t rank = 0; rank < count; ++rank) {
      batch.given.at(p, rank) = wanted[(p * processes_ + rank_) * count + rank];
    }
  }
  batch.returned = batch.given;
  for (std::size_t rank = 0; rank < count; ++rank) {
    for (std::size_t p = 0; p < processes_; ++p) {
      if (everywhere(rank) && p != rank_) batch.returned.at(p, rank) = 0;
    }
  }
}

TensorRef TableSharing::bags(std::size_t n) {
  if (n == 0) return zeros_.ref();
  if (n + 1 > places_count_) {
    const std::size_t size = 2 * TablePlan::with_reserve(n + 1);
    auto arena = DeviceBuffer2::create("shared tables", DeviceAllocator(gpu_.memory_resource()));
    places_ = arena->reserve({size}, TensorScalarType::UInt32, "places of keys");
    arena->allocate();
    places_arenas_.push_back(std::move(arena));
    std::vector<std::uint32_t> places(size);
    std::iota(places.begin(), places.end(), 0u);
    gpu_.plan_stream().copy(places_.ref().data, places.data(), size * sizeof places[0]);
    gpu_.plan_stream().synchronize();
    places_count_ = size;
  }
  return array_part(places_.ref(), 0, {n + 1});
}

std::vector<SparseTensor> TableSharing::by_table(const SharedBatch& batch, const TensorRef& keys) {
  tables_.finish_begun();  // which reads the memory that is about to be written
  const std::size_t count = order_.size();
  std::vector<std::int64_t> begins(count + 1), next(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    begins[rank + 1] = begins[rank] + batch.given.of_table(rank);
    next[rank] = begins[rank];
  }
  const std::size_t n = size_from(begins[count]);
  HCTR_CHECK(keys.dtype == TensorScalarType::Int64 && keys.size() == n, "a process was asked for ",
             n, " rows and got ", keys.size(), " keys");
  const TensorRef sorted =
      take(keys_, "keys of other processes", TensorScalarType::Int64, n, gpu_.plan_stream());
  CopyBlocks copies{.in = keys, .out = sorted};
  batch.given.each_block(0, count, [&](auto, auto rank, auto begin, auto size) {
    copies.from.push_back(begin);
    copies.to.push_back(std::exchange(next[rank], next[rank] + size));
    copies.sizes.push_back(size);
  });
  if (n > 0) run(gpu_.plan_context(), std::move(copies));
  std::vector<SparseTensor> tables(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    SparseTensor& table = tables[order_[rank]];
    table.nnz = size_from(begins[rank + 1] - begins[rank]);
    table.keys = array_part(sorted, size_from(begins[rank]), {table.nnz});
    table.row_offsets = bags(table.nnz);
  }
  return tables;
}

void TableSharing::plan(SharedBatch& batch, const TensorRef& keys, std::uintptr_t stream,
                        bool beside) noexcept {
  try {
    begin_plan(batch, keys, stream, beside);
  } catch (...) {  // the other processes are told by who asks for the batch
    batch.failure = std::current_exception();
  }
}

void TableSharing::begin_plan(SharedBatch& batch, const TensorRef& keys, std::uintptr_t stream,
                              bool beside) {
  const SettledOnError settled(gpu_.plan_stream());
  follow_caller(gpu_.plan_stream(), stream);
  const std::vector<SparseTensor> tables = by_table(batch, keys);
  // The keys are the caller's to give away in its order: what is planned is a copy.
  precede_caller(gpu_.plan_stream(), stream);
  batch.token = tables_.begin(tables, stream, {}, beside);
}

void TableSharing::check(const SharedBatch& batch) {
  if (batch.failure) std::rethrow_exception(batch.failure);
  tables_.check(batch.token);
}

std::vector<TensorRef> TableSharing::given_vectors(const SharedBatch& batch,
                                                   TensorScalarType type) {
  std::size_t numbers = 0;
  for (const Group& group : groups_) {
    for (std::size_t rank = group.first; rank < group.end; ++rank) {
      numbers += size_from(batch.given.of_table(rank)) * group.d;
    }
  }
  const TensorRef memory =
      take(vectors_, "vectors of other processes", type, numbers, gpu_.compute_stream());
  std::vector<TensorRef> vectors(order_.size());
  std::size_t begin = 0;
  for (const Group& group : groups_) {
    for (std::size_t rank = group.first; rank < group.end; ++rank) {
      const std::size_t rows = size_from(batch.given.of_table(rank));
      if (rows > 0) vectors[order_[rank]] = array_part(memory, begin, {rows, 1, group.d});
      begin += rows * group.d;
    }
  }
  return vectors;
}

void TableSharing::make_room(const SharedBatch& batch, TensorScalarType type, bool gradients) {
  given_vectors(batch, type);
  if (gradients) tables_.make_room_for_gradients(batch.token);
}

CopyBlocks TableSharing::between(const SharedBatch& batch, const Group& group,
                                 const ProcessRows& message, bool out) const {
  CopyBlocks copies;
  const auto d = static_cast<std::int64_t>(group.d);
  std::vector<std::int64_t> next(order_.size());  // rows, from the first of the group
  std::int64_t rows = 0;
  for (std::size_t rank = group.first; rank < group.end; ++rank) {
    next[rank] = std::exchange(rows, rows + batch.given.of_table(rank));
  }
  message.each_block(group.first, group.end, [&](auto p, auto rank, auto begin, auto size) {
    const std::int64_t here = std::exchange(next[rank], next[rank] + batch.given.at(p, rank));
    if (size == 0) return;
    copies.from.push_back((out ? here : begin) * d);
    copies.to.push_back((out ? begin : here) * d);
    copies.sizes.push_back(size * d);
  });
  return copies;
}

void TableSharing::send(const SharedBatch& batch, std::span<const TensorRef> vectors,
                        std::span<const TensorRef> out) {
  std::vector<CopyBlocks> copies;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    CopyBlocks copy = between(batch, group, batch.returned, true);
    if (copy.sizes.empty()) continue;
    copy.in = whole_of(vectors, std::span(order_).subspan(group.first, group.end - group.first));
    copy.out = out[g];
    copies.push_back(std::move(copy));
  }
  run_several(gpu_.compute_context(), std::move(copies));
}

void TableSharing::give(const SharedBatch& batch, std::span<const TensorRef> out,
                        std::uintptr_t stream) {
  if (batch.failure) std::rethrow_exception(batch.failure);
  const std::vector<TensorRef> vectors = given_vectors(batch, out.front().dtype);
  const SettledOnError settled(gpu_.compute_stream());
  tables_.forward(batch.token, vectors, stream);
  send(batch, vectors, out);
  precede_caller(gpu_.compute_stream(), stream);
}

void TableSharing::look_up(const SharedBatch& batch, const TensorRef& keys,
                           std::span<const TensorRef> out, std::uintptr_t stream) {
  const SettledOnError settled(gpu_.plan_stream()), given(gpu_.compute_stream());
  follow_caller(gpu_.plan_stream(), stream);
  const std::vector<SparseTensor> tables = by_table(batch, keys);
  const std::vector<TensorRef> vectors = given_vectors(batch, out.front().dtype);
  tables_.look_up(tables, vectors, stream);
  send(batch, vectors, out);
  precede_caller(gpu_.compute_stream(), stream);
}

void TableSharing::accumulate(const SharedBatch& batch, std::span<const TensorRef> came,
                              std::uintptr_t stream) {
  std::vector<TensorRef> vectors = given_vectors(batch, came.front().dtype);
  const SettledOnError settled(gpu_.compute_stream());
  follow_caller(gpu_.compute_stream(), stream);
  std::vector<CopyBlocks> copies;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    CopyBlocks copy = between(batch, group, batch.given, false);
    if (copy.sizes.empty()) continue;
    copy.in = came[g];
    copy.out = whole_of(vectors, std::span(order_).subspan(group.first, group.end - group.first));
    copies.push_back(std::move(copy));
  }
  run_several(gpu_.compute_context(), std::move(copies));
  tables_.accumulate(batch.token, vectors, stream);
}

}  // namespace hugectr
