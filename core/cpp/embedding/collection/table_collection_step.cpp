// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/cpp/embedding/collection/caller_order.hpp"
#include "core/cpp/embedding/collection/table_collection.hpp"

/// What a collection does with gradients that wait.
namespace hugectr {
namespace {

constexpr std::size_t kRatesAtOnce = 256 / 4;  // of copy_scalars()

}  // namespace

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
    if (!unscale.empty()) scalars[t].unscale = make_ref(unscale.ptr<float>() + t, {1}, device());
  }
  gradients_.apply(scalars, number);
  precede_caller(compute, stream);
  stepped(number, [this](std::size_t table) { return gradients_.rows(table); });
}

void TableCollection::stepped(std::int64_t number, const Insertions::RowsOfTable& updated) {
  // Only now: who sees a new row sees it trained, and an update that failed has shown none.
  steps_ = number;
  has_gradients_ = false;
  insertions_.show(updated);
  gradients_.clear();
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
      make_ref(rates_.get_ptr(), {1}, device()), gradients_.step_number(), {}};
  group_.backward_and_update(kLocal, batch.slot, gradients, scalars);
  precede_caller(compute, stream);
  insertions_.await_update(token);
  stepped(number, [&](std::size_t table) { return rows_of(batch, table); });
}

std::vector<std::uint32_t> TableCollection::rows_of(Batch& batch, std::size_t table) {
  return group_.table(table).is_trainable() ? planned_rows_of(batch, table)
                                            : std::vector<std::uint32_t>{};
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
