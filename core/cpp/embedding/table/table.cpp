// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/table.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/table/row_tiers.hpp"
#include "core/cpp/ops/score_rows.hpp"

namespace hugectr {
namespace {

/// Birth of rows that no extent has.
constexpr std::uint32_t kHidden = std::numeric_limits<std::uint32_t>::max();

}  // namespace

Table::Table(TableSpec spec, RowBudget budget, GPUResource& gpu)
    : spec_(std::move(spec)),
      gpu_(gpu),
      memory_(gpu.memory_resource()),
      owner_(concat(spec_.name, " on ", to_string(gpu.device()))),
      has_budget_(budget.rows > 0),
      limit_(has_budget_ ? std::move(budget)
                         : rows_without_budget(*memory_, spec_.row_parts(), spec_.sharers)),
      index_(memory_, owner_, spec_.key_type, limit_.rows, spec_.has_slots(),
             gpu.staging_resource(), spec_.direct),
      store_(make_row_store(gpu, spec_.name, owner_, spec_.memory, spec_.opt_params,
                            spec_.row_parts(), index_.max_rows())) {
  if (!spec_.life.keeps_scores()) return;
  scores_ =
      GrowableTensor(*memory_, TensorScalarType::UInt64, 1, max_rows(), owner_ + " scores of rows");
  const auto arena = DeviceBuffer2::create(owner_ + " admitted", DeviceAllocator(memory_));
  arena->reserve({1}, &admitted_, "admitted");
  arena->allocate();
  gpu_.plan_stream().fill_zero(admitted_.get_ptr(), sizeof(std::int64_t));
  gpu_.plan_stream().synchronize();
}

void Table::make_room(std::size_t asked) {
  if (asked > max_rows()) {
    throw OutOfMemory(concat("embedding '", spec_.name, "' on ", to_string(gpu_.device()),
                             " needs ", asked, " rows and may have ", max_rows(), limit_.way_out));
  }
  store_->grow_to(size());
  if (stamps_.max_rows() > 0) stamps_.grow_to(size());
  if (has_gaps()) births_.grow_to(size());
  if (keeps_scores()) scores_.grow_to(size());
}

bool Table::has_room(std::size_t keys) const {
  const std::size_t rows = size() + keys;
  return index_.numbers_in_order(keys) && !has_gaps() && !keeps_scores() &&
         store_->room() >= rows && (stamps_.max_rows() == 0 || stamps_.rows() >= rows);
}

void Table::make_room_for_next(std::size_t keys) {
  const std::size_t rows = size() + keys;
  if (rows > max_rows() || store_->room() == 0 || has_gaps() || keeps_scores()) return;
  try {
    store_->grow_to(rows);
    if (stamps_.max_rows() > 0) stamps_.grow_to(rows);
  } catch (const OutOfMemory&) {  // whoever needs it waits, as it did now
  }
}

EmbeddingInit Table::content(const TensorRef& rows, std::size_t first, std::size_t last,
                             const StagedRows& where, bool vectors, const TensorRef& births) const {
  const std::vector<float> starts = state_starts(spec_.opt_params);
  const std::size_t count = rows.empty() ? last - first : rows.size();
  return {.rows = rows,
          .row_keys = index_.row_keys(last),
          .row_slots = index_.row_slots(last),
          .places = where.places,
          .weights = vectors ? where.arrays.vectors : TensorRef{},
          .last_step = where.arrays.last_step,
          .births = births,
          .states = where.arrays.states,
          .first = static_cast<std::int64_t>(first),
          .count = static_cast<std::int64_t>(count),
          .birth = birth_,
          .first_column = static_cast<std::int64_t>(spec_.first_column),
          .columns = static_cast<std::int64_t>(spec_.all_columns),
          .seed = spec_.seed,
          .table = spec_.number,
          .sinusoidal = spec_.sinusoidal,
          .bounds = spec_.initial_bounds,
          .initial_states = {starts.begin(), starts.end()}};
}

void Table::first_content(const HashTable::State& before, const StagedRows& where, bool vectors,
                          std::vector<EmbeddingInit>& ops) const {
  const TensorRef reused = reused_since(before);
  if (!reused.empty()) ops.push_back(content(reused, 0, size(), where, vectors, births(size())));
  if (before.rows < size()) {
    ops.push_back(content({}, before.rows, size(), where, vectors, births(size())));
  }
}

std::optional<EmbeddingInit> Table::first_content_ahead(const HashTable::State& before,
                                                        const StagedRows& where,
                                                        std::vector<EmbeddingInit>& ops) const {
  const TensorRef reused = reused_since(before);
  if (reused.empty() || !sweeps_untouched_rows(spec_.opt_params)) {
    first_content(before, where, true, ops);
    return std::nullopt;
  }
  ops.push_back(births_of(reused, 0, reused.size()));
  if (before.rows < size()) {
    ops.push_back(content({}, before.rows, size(), where, true, births(size())));
  }
  return content(reused, 0, size(), where, true, {});
}

void Table::content_of_new(std::size_t keys, const StagedRows& where,
                           std::vector<EmbeddingInit>& ops) const {
  if (keys == 0) return;
  EmbeddingInit op = content({}, size(), size() + keys, where, true, {});
  op.until = index_.counter();
  ops.push_back(std::move(op));
}

void Table::first_states(const OpContext& context, const TensorRef& places,
                         RowArrays arrays) const {
  // Keys are not looked at: of as many rows as the arrays show.
  const std::size_t shown = std::min(arrays.vectors.shape[0], size());
  arrays.vectors.shape[0] = shown;
  for (TensorRef& state : arrays.states) state.shape[0] = shown;
  if (!arrays.last_step.empty()) arrays.last_step.shape[0] = shown;
  StagedRows where;
  where.arrays = std::move(arrays);
  run(context, content(places, 0, shown, where, false, {}));
}

EmbeddingInit Table::births_of(const TensorRef& rows, std::size_t first, std::size_t count) const {
  return {.rows = rows,
          .row_keys = index_.row_keys(size()),
          .births = births(size()),
          .first = static_cast<std::int64_t>(first),
          .count = static_cast<std::int64_t>(count),
          .birth = birth_};
}

void Table::first_births(const OpContext& context, const HashTable::State& before) const {
  if (!has_gaps()) return;
  const TensorRef reused = reused_since(before);
  if (!reused.empty()) run(context, births_of(reused, 0, reused.size()));
  if (before.rows < size()) run(context, births_of({}, before.rows, size() - before.rows));
}

RowRounding Table::rounding(const TensorRef& numbers, std::size_t rows) const {
  if (spec_.vector_type == TensorScalarType::Float32) return {};
  return {.numbers = numbers,
          .row_keys = index_.row_keys(rows),
          .row_slots = index_.row_slots(rows),
          .first_column = static_cast<std::int64_t>(spec_.first_column),
          .seed = spec_.seed,
          .table = spec_.number};
}

void Table::reset_states(const OpContext& context) {
  const std::size_t rows = visible().rows;
  if (rows == 0) return;
  store_->scan(context, rows, RowUse::Write,
               [&](const RowArrays& arrays, std::size_t first, std::size_t last) {
                 StagedRows piece;
                 piece.arrays = arrays;
                 run(context, content({}, 0, last - first, piece, false, {}));
                 context.stream->synchronize();
               });
}

HashTable::Limit Table::limit() const {
  const RowExtent extent = visible();
  return {extent.rows, births(extent.rows), extent.birth};
}

RowExtent Table::visible() const {
  const std::lock_guard lock(shown_);
  RowExtent extent = visible_;
  extent.live -= hidden_;
  return extent;
}

void Table::hide(const std::vector<std::uint32_t>& rows) {
  keep_births();
  set_births(rows, kHidden);
  const std::lock_guard lock(shown_);
  hidden_ += rows.size();
}

void Table::reveal(const std::vector<std::uint32_t>& rows) {
  set_births(rows, visible().birth);
  {
    const std::lock_guard lock(shown_);
    hidden_ -= rows.size();
    if (hidden_ > 0) return;
  }
  // All rows below the extent are visible again: who has no gaps need not wait for keys.
  if (!has_erased_) births_ = {};
}

void Table::set_births(const std::vector<std::uint32_t>& rows, std::uint32_t birth) {
  Tensor2<std::uint32_t> numbers;
  const auto arena = DeviceBuffer2::create(owner_ + " rows hidden", DeviceAllocator(memory_));
  arena->reserve({rows.size()}, &numbers, "numbers");
  arena->allocate();
  Stream& stream = gpu_.plan_stream();
  stream.copy(numbers.get_ptr(), rows.data(), rows.size() * sizeof rows[0]);
  EmbeddingInit births = births_of(numbers.ref(), 0, rows.size());
  births.birth = birth;
  run(gpu_.plan_context(), std::move(births));
  stream.synchronize();
}

void Table::show(const RowExtent& extent) {
  const std::lock_guard lock(shown_);
  if (extent.birth >= visible_.birth) visible_ = extent;
}

void Table::keep_births() {
  if (has_gaps()) return;
  births_ =
      GrowableTensor(*memory_, TensorScalarType::UInt32, 1, max_rows(), owner_ + " births of rows");
  births_.grow_to(size());  // visible rows were there from the beginning: 0
  // Rows that were planned and never trained are not; content they have.
  const std::size_t first = visible().rows;
  if (first < size()) run(gpu_.plan_context(), births_of({}, first, size() - first));
}

void Table::erase(const TensorRef& rows) {
  HCTR_CHECK(!is_pinned(), "embedding '", spec_.name,
             "': erase while a training batch is planned; drop_plan() first");
  erase_unplanned(rows);
  ++generation_;
}

void Table::erase_unplanned(const TensorRef& rows) {
  gpu_.compute_stream().synchronize();
  keep_births();
  has_erased_ = true;
  const OpContext context = gpu_.plan_context();
  index_.erase(context, rows);
  if (keeps_scores()) run(context, ClearScores{.rows = rows, .scores = scores(size())});
  context.stream->synchronize();
  {
    const std::lock_guard lock(shown_);
    visible_.live -= rows.size();
  }
  store_->forget(context, rows);
}

void Table::reset() {
  gpu_.compute_stream().synchronize();
  const OpContext context = gpu_.plan_context();
  if (keeps_scores()) {
    context.stream->fill_zero(scores_.ref(0, 0).data, scores_.rows() * sizeof(std::uint64_t));
  }
  index_.clear(context);
  context.stream->synchronize();
  show({0, 0, birth_});
  {
    const std::lock_guard lock(shown_);
    hidden_ = 0;
  }
  ++generation_;
  store_->clear(context);
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
  HCTR_CHECK(store_->in_place(), "embedding '", spec_.name, "' on ", to_string(gpu_.device()),
             " has its rows in several tiers (memory=), so that they do not lie one after another "
             "where training writes to them: take copies of them instead of a view");
  const std::size_t n = extent.rows;
  RowArrays arrays = store_->whole(n);
  return {index_.row_keys(n), index_.row_slots(n), arrays.vectors, std::move(arrays.states)};
}

std::size_t Table::size_in_bytes() const {
  return index_.size_in_bytes() + store_->size_in_bytes() + stamps_.size_in_bytes() +
         births_.size_in_bytes() + scores_.size_in_bytes();
}

void Table::report_memory(std::vector<MemoryReportEntry>& report) const {
  report.push_back({owner_, "hash table", 0, index_.size_in_bytes()});
  report.push_back({owner_, "weights", 0, store_->vector_bytes()});
  const std::size_t bytes =
      store_->size_in_bytes() - store_->vector_bytes() + scores_.size_in_bytes();
  // Of rows in tiers also what says which row is where.
  if (bytes > 0) report.push_back({owner_, "optimizer states", 0, bytes});
  if (store_->staging_bytes() > 0) {
    report.push_back({owner_, "staging of rows", 0, store_->staging_bytes()});
  }
  if (store_->host_bytes() > 0) {
    report.push_back({owner_, "rows in host memory", 0, store_->host_bytes()});
  }
}

}  // namespace hugectr
