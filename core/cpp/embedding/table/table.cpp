// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/table.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/cpp/device/several.hpp"

namespace hugectr {
namespace {

/// Rows to reserve address space for when there is no budget: more than the machine's memory could
/// hold. A device has no more memory than its host in any sensible machine, and mapping fails with
/// a clear message where it does.
std::size_t rows_of_all_memory(std::size_t vec_size) {
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                     static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::clamp<std::size_t>(bytes / (vec_size * sizeof(float)), 1, kNoRow - 1);
}

}  // namespace

Table::Table(TableSpec spec, RowBudget budget, GPUResource& gpu)
    : spec_(std::move(spec)),
      budget_(std::move(budget)),
      gpu_(gpu),
      memory_(gpu.memory_resource()),
      owner_(concat(spec_.name, " on ", to_string(gpu.device()))),
      index_(memory_, owner_, spec_.key_type,
             has_budget() ? budget_.rows : rows_of_all_memory(spec_.vec_size), spec_.has_slots(),
             gpu.staging_resource()),
      store_(make_mapped_rows(*memory_, owner_, parts_of_row(spec_.vec_size, spec_.opt_params),
                              index_.max_rows())) {}

void Table::make_room(std::size_t asked) {
  if (asked > max_rows()) {
    throw OutOfMemory(concat("embedding '", spec_.name, "' on ", to_string(gpu_.device()),
                             " needs ", asked, " rows and may have ", max_rows(),
                             has_budget()
                                 ? budget_.way_out
                                 : " in this machine's memory: use more devices or a smaller "
                                   "vector size"));
  }
  store_->grow_to(size());
  if (stamps_.max_rows() > 0) stamps_.grow_to(size());
  if (has_gaps()) births_.grow_to(size());
}

EmbeddingInit Table::content(const TensorRef& rows, std::size_t first, std::size_t last,
                             bool vectors, const TensorRef& births) const {
  const std::vector<float> starts = state_starts(spec_.opt_params);
  RowArrays arrays = store_->whole(last);
  const std::size_t count = rows.empty() ? last - first : rows.size();
  return {.rows = rows,
          .row_keys = index_.row_keys(last),
          .row_slots = index_.row_slots(last),
          .weights = vectors ? arrays.vectors : TensorRef{},
          .last_step = arrays.last_step,
          .births = births,
          .states = std::move(arrays.states),
          .first = static_cast<std::int64_t>(first),
          .count = static_cast<std::int64_t>(count),
          .birth = birth_,
          .seed = spec_.seed,
          .table = spec_.number,
          .sinusoidal = spec_.sinusoidal,
          .bounds = spec_.initial_bounds,
          .initial_states = {starts.begin(), starts.end()}};
}

RowExtent Table::begin_rows(const HashTable::State& before, bool vectors,
                            std::vector<EmbeddingInit>& ops) {
  ++birth_;
  const TensorRef reused = reused_since(before);
  if (!reused.empty()) ops.push_back(content(reused, 0, size(), vectors, births(size())));
  if (before.rows < size()) {
    ops.push_back(content({}, before.rows, size(), vectors, births(size())));
  }
  return {size(), index_.live(), birth_};
}

RowExtent Table::begin_rows(const OpContext& context, const HashTable::State& before,
                            bool vectors) {
  std::vector<EmbeddingInit> ops;
  const RowExtent extent = begin_rows(before, vectors, ops);
  run_several(context, std::move(ops));
  return extent;
}

void Table::reset_states(const OpContext& context) const {
  const std::size_t rows = visible().rows;
  if (rows > 0) run(context, content({}, 0, rows, false, {}));
}

HashTable::Limit Table::limit() const {
  const RowExtent extent = visible();
  return {extent.rows, births(extent.rows), extent.birth};
}

RowExtent Table::visible() const {
  const std::lock_guard lock(shown_);
  return visible_;
}

void Table::show(const RowExtent& extent) {
  const std::lock_guard lock(shown_);
  visible_ = extent;
}

void Table::keep_births() {
  if (has_gaps()) return;
  births_ =
      GrowableTensor(*memory_, TensorScalarType::UInt32, 1, max_rows(), owner_ + " births of rows");
  births_.grow_to(size());  // visible rows were there from the beginning: 0
  // Rows that were planned and never trained are not.
  const std::size_t first = visible().rows;
  if (first < size()) run(gpu_.plan_context(), content({}, first, size(), true, births(size())));
}

void Table::erase(const TensorRef& rows) {
  HCTR_CHECK(!is_pinned(), "embedding '", spec_.name,
             "': erase while a training batch is planned; drop_plan() first");
  gpu_.compute_stream().synchronize();
  keep_births();
  const OpContext context = gpu_.plan_context();
  index_.erase(context, rows);
  context.stream->synchronize();
  ++generation_;
  const std::lock_guard lock(shown_);
  visible_.live -= rows.size();
}

void Table::reset() {
  gpu_.compute_stream().synchronize();
  const OpContext context = gpu_.plan_context();
  index_.clear(context);
  context.stream->synchronize();
  show({0, 0, birth_});
  ++generation_;
}

void Table::keep_stamps() {
  stamps_ = GrowableTensor(*memory_, TensorScalarType::UInt32, 1, max_rows(),
                           owner_ + " stamps of touched rows");
  stamps_.grow_to(size());
}

TensorRef Table::stamps(std::size_t rows) const {
  return stamps_.max_rows() > 0 ? stamps_.ref(0, rows) : TensorRef{};
}

TableRows Table::rows() const {
  const RowExtent extent = visible();
  HCTR_CHECK(extent.live == extent.rows, "embedding '", spec_.name, "' on ",
             to_string(gpu_.device()), ": ", extent.rows - extent.live,
             " rows were erased and their places are free, so that its rows do not lie one after "
             "another: take copies of them instead of a view");
  const std::size_t n = extent.rows;
  RowArrays arrays = store_->whole(n);
  return {index_.row_keys(n), index_.row_slots(n), arrays.vectors, std::move(arrays.states)};
}

std::size_t Table::size_in_bytes() const {
  return index_.size_in_bytes() + store_->size_in_bytes() + stamps_.size_in_bytes() +
         births_.size_in_bytes();
}

void Table::report_memory(std::vector<MemoryReportEntry>& report) const {
  report.push_back({owner_, "hash table", 0, index_.size_in_bytes()});
  report.push_back({owner_, "weights", 0, store_->vector_bytes()});
  const std::size_t bytes = store_->size_in_bytes() - store_->vector_bytes();
  if (bytes > 0) report.push_back({owner_, "optimizer states", 0, bytes});
}

}  // namespace hugectr
