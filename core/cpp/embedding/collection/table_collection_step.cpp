// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/device/several.hpp"
#include "core/cpp/embedding/collection/array_part.hpp"
#include "core/cpp/embedding/collection/caller_order.hpp"
#include "core/cpp/embedding/collection/table_collection.hpp"
#include "core/cpp/ops/copy_blocks.hpp"

/// What a collection does with gradients that wait.
namespace hugectr {
namespace {

constexpr std::size_t kRatesAtOnce = 256 / 4;  // of copy_scalars()

}  // namespace

void TableCollection::accumulate(Token token, std::span<const TensorRef> gradients,
                                 std::uintptr_t stream) {
  settle_begun();
  Batch& batch = batch_of(token);
  HCTR_CHECK(gradients.size() == group_.size(), "a collection of ", group_.size(),
             " tables got gradients of ", gradients.size());
  const std::vector<PlannedRows> tables = group_.planned_rows(kLocal, batch.slot);
  const std::vector<std::size_t> before = gradients_.counts();
  batch.counted->synchronize();
  const SettledOnError settled(gpu_.compute_stream());
  follow_caller(gpu_.compute_stream(), stream);
  std::vector<TensorRef> sums(group_.size());
  std::vector<CopyBlocks> distinct;
  distinct.reserve(tables.size());
  std::vector<std::size_t> without;  // gradients
  std::vector<std::vector<std::uint32_t>> rows_without;
  try {  // whatever fails, nothing of this batch stays
    for (std::size_t t = 0; t < tables.size(); ++t) {
      const auto rows = static_cast<std::size_t>(batch.row_counts.get_ptr()[t]);
      if (gradients[t].empty() || !group_.table(t).is_trainable()) {
        if (rows > 0) without.push_back(t);  // else it is another process's
        continue;
      }
      const RowGradients::Room room = gradients_.append(t, rows);
      distinct.push_back(
          {.in = array_part(tables[t].distinct, 0, {rows}), .out = room.rows, .whole = true});
      sums[t] = room.sums;
    }
    run_several(gpu_.compute_context(), std::move(distinct));
    group_.sum_gradients(kLocal, batch.slot, gradients, sums);
    if (insertions_.others_before(token)) {  // whose rows of the same keys would go as theirs
      for (const std::size_t t : without) rows_without.push_back(planned_rows_of(batch, t));
    }
    precede_caller(gpu_.compute_stream(), stream);
  } catch (...) {
    gradients_.cut_back(before);
    throw;
  }
  for (std::size_t i = 0; i < rows_without.size(); ++i) {
    std::vector<std::uint32_t>& rows = without_gradients_[without[i]];
    rows.insert(rows.end(), rows_without[i].begin(), rows_without[i].end());
  }
  insertions_.await_update(token);
  has_gradients_ = true;
}

void TableCollection::clear_gradients() {
  settle_begun();
  drop_gradients();
  insertions_.withdraw();
}

void TableCollection::drop_gradients() {
  gradients_.clear();
  for (std::vector<std::uint32_t>& rows : without_gradients_) rows.clear();
  has_gradients_ = false;
}

void TableCollection::squares(const TensorRef& squares, std::uintptr_t stream) {
  settle_begun();
  const SettledOnError settled(gpu_.compute_stream());
  follow_caller(gpu_.compute_stream(), stream);
  gradients_.squares(squares);
  precede_caller(gpu_.compute_stream(), stream);
}

void TableCollection::check_rates(std::span<const float> rates) const {
  HCTR_CHECK(rates.size() == group_.size(), "a collection of ", group_.size(),
             " tables got rates of ", rates.size());
}

void TableCollection::set_rates(std::span<const float> rates) {
  // What the device has is written again when it is another: a launch less in most steps.
  if (std::ranges::equal(rates, rates_there_)) return;
  for (std::size_t t = 0; t < rates.size(); t += kRatesAtOnce) {
    gpu_.compute_stream().copy_scalars(rates_.get_ptr() + t, rates.data() + t,
                                       std::min(kRatesAtOnce, rates.size() - t) * sizeof(float));
  }
  rates_there_.assign(rates.begin(), rates.end());
}

void TableCollection::step(std::span<const float> rates, const TensorRef& unscale,
                           std::uintptr_t stream) {
  check_rates(rates);
  settle_begun();
  Stream& compute = gpu_.compute_stream();
  const SettledOnError settled(compute);
  follow_caller(compute, stream);
  set_rates(rates);
  const std::int64_t number = steps_ + 1;
  std::vector<UpdateScalars> scalars(group_.size());
  for (std::size_t t = 0; t < scalars.size(); ++t) {
    scalars[t].lr = make_ref(rates_.get_ptr() + t, {1}, device());
    scalars[t].step = gradients_.step_number();
    scalars[t].number = number;
    if (!unscale.empty()) scalars[t].unscale = make_ref(unscale.ptr<float>() + t, {1}, device());
  }
  gradients_.apply(scalars, number);
  precede_caller(compute, stream);
  stepped(number, [this](std::size_t table) {
    std::vector<std::uint32_t> rows = gradients_.rows(table);
    const std::vector<std::uint32_t>& more = without_gradients_[table];
    rows.insert(rows.end(), more.begin(), more.end());
    return rows;
  });
}

void TableCollection::stepped(std::int64_t number, const Insertions::RowsOfTable& updated) {
  // Only now: who sees a new row sees it trained, and an update that failed has shown none.
  steps_ = number;
  for (std::size_t t = 0; t < group_.size(); ++t) group_.table(t).trained_steps().stepped();
  insertions_.show(updated);
  drop_gradients();
  insertions_.settle();
}

bool TableCollection::updates_at_once(std::span<const float> rates) const {
  // Rows of tiers go with the update of a plan, whose forward may come again.
  return !has_gradients_ && !tiered_ && !sweeps_ &&
         std::ranges::all_of(rates, [&](float rate) { return rate == rates[0]; });
}

void TableCollection::update(Token token, std::span<const TensorRef> gradients,
                             std::span<const float> rates, std::uintptr_t stream) {
  check_rates(rates);
  settle_begun();
  Batch& batch = batch_of(token);
  if (!updates_at_once(rates)) {
    accumulate(token, gradients, stream);
    return step(rates, {}, stream);
  }
  HCTR_CHECK(gradients.size() == group_.size(), "a collection of ", group_.size(),
             " tables got gradients of ", gradients.size());
  Stream& compute = gpu_.compute_stream();
  const SettledOnError settled(compute);
  follow_caller(compute, stream);
  set_rates(rates);
  const std::int64_t number = steps_ + 1;
  gradients_.set_step_number(number);
  const UpdateScalars scalars{
      make_ref(rates_.get_ptr(), {1}, device()), gradients_.step_number(), {}, number};
  group_.backward_and_update(kLocal, batch.slot, gradients, scalars);
  precede_caller(compute, stream);
  insertions_.await_update(token);
  stepped(number, [&](std::size_t table) { return planned_rows_of(batch, table); });
}

std::vector<std::uint32_t> TableCollection::planned_rows_of(Batch& batch, std::size_t table) {
  batch.counted->synchronize();
  const PlannedRows planned = group_.planned_rows(kLocal, batch.slot)[table];
  std::vector<std::uint32_t> rows(static_cast<std::size_t>(batch.row_counts.get_ptr()[table]));
  gpu_.compute_stream().copy(rows.data(), planned.distinct.data, rows.size() * sizeof rows[0]);
  gpu_.compute_stream().synchronize();
  return rows;
}

}  // namespace hugectr
