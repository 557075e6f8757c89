// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/cached_rows.hpp"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "core/cpp/embedding/table/cached_plans.hpp"
#include "core/cpp/embedding/table/row_copies.hpp"
#include "core/cpp/embedding/table/row_homes.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cpp/ops/row_cache.hpp"

/// How rows are looked at that plans do not name.
namespace hugectr {
namespace {

/// Over a home that is whole: what has changed is sent there, and it is shown.
class CachedOverWhole final : public CachedPlans {
 public:
  CachedOverWhole(GPUResource& gpu, std::unique_ptr<RowBacking> home, const std::string& table,
                  const std::string& owner, const RowParts& parts, std::size_t places,
                  std::size_t max_rows, std::size_t least_ranked)
      : CachedPlans(gpu, std::move(home), table, owner, parts, places, max_rows, least_ranked),
        of_readers_(gpu, owner) {}

  void visit(const OpContext&, std::size_t rows, const std::vector<std::uint32_t>& numbers,
             RowUse use, const RowVisit& f) override {
    send_home();
    std::vector<std::uint32_t> homes;
    if (swaps_) find_homes(homes = numbers);
    f({home_->whole(swaps_ ? rows_ : rows), swaps_ ? &homes : nullptr});
    if (use == RowUse::Write) read_again();
  }
  void scan(const OpContext&, std::size_t rows, RowUse use, const RowScan& f) override {
    f(whole(rows), 0, rows);
    if (use == RowUse::Write) read_again();
  }
  RowArrays whole(std::size_t rows) override {
    send_home();
    put_home_in_order();
    return home_->whole(rows);
  }

 private:
  /// Lists the places that have changed, or all; for who reads or writes rows at home. Waits.
  FoundPlaces find_places(const OpContext& context, bool all) {
    FoundPlaces found(memory_, owner_, places_);
    run(context, CacheChanged{.numbers = rows_at_places(),
                              .marks = marks(),
                              .places = found.places.ref(),
                              .rows = found.rows.ref(),
                              .report = of_readers_.on_device.ref(),
                              .changing = pins_.changing(),
                              .all = all});
    const TensorBag2& report = of_readers_.on_device;
    context.stream->copy(of_readers_.on_host.get_ptr(), report.get_ptr(),
                         report.get_size_in_bytes());
    context.stream->synchronize();
    found.count = of_readers_.told(CacheReport::kMissing);
    if (swaps_) {
      TensorRef rows = found.rows.ref();
      rows.shape = {found.count};
      run(context, CacheHomes{.rows = rows, .shifts = shifts()});
    }
    return found;
  }

  /// Numbers of rows become their homes. Waits.
  void find_homes(std::vector<std::uint32_t>& rows) {
    const std::lock_guard lock(mutex_);
    rows_to_homes(gpu_.plan_context(), memory_, owner_, shifts(), rows);
  }

  /// Each row is at home at its number when this returns, for who looks at all of them. What is
  /// there must have been sent home.
  void put_home_in_order() {
    const std::lock_guard lock(mutex_);
    if (!swapped_) return;
    const OpContext context = gpu_.plan_context();
    await_steps(*context.stream);
    put_in_order(context, home_->whole(rows_), shifts());
    swapped_ = false;
  }

  /// What steps have changed is at home when this returns. Rows of a plan that is staged count as
  /// changed until it is released.
  void send_home() {
    const std::lock_guard lock(mutex_);
    if (!unsent_ || places_ == 0) return;
    const OpContext context = gpu_.plan_context();
    await_steps(*context.stream);
    const FoundPlaces changed = find_places(context, false);
    if (changed.count > 0) {
      home_->move(context, cache_.arrays(places_),
                  {changed.places.ref(), changed.rows.ref(), {}, changed.count});
      context.stream->synchronize();
    }
    sent_by_readers_ += changed.count;
    counts_.bytes_written_back += changed.count * row_bytes_;
    unsent_ = false;
  }

  /// Rows have changed at home: those with a place are brought there anew.
  void read_again() {
    const std::lock_guard lock(mutex_);
    if (places_ == 0) return;
    const OpContext context = gpu_.plan_context();
    await_steps(*context.stream);
    const FoundPlaces taken = find_places(context, true);
    if (taken.count == 0) return;
    home_->move(context, cache_.arrays(places_),
                {taken.places.ref(), {}, taken.rows.ref(), taken.count});
    context.stream->synchronize();
  }

  CacheReportMemory of_readers_;
};

/// Over a disk: who looks gets copies.
class CachedOverDisk final : public CachedPlans {
 public:
  using CachedPlans::CachedPlans;

  void visit(const OpContext&, std::size_t, const std::vector<std::uint32_t>& numbers, RowUse use,
             const RowVisit& f) override {
    RowCopies copies(gpu_, *home_, owner_, parts_, numbers.size());
    visit_copies(copies, numbers, use, f);
  }
  std::size_t most_visited() const override { return RowCopies::most(parts_); }
  void scan(const OpContext&, std::size_t rows, RowUse use, const RowScan& f) override {
    const std::size_t most = std::min(most_visited(), rows);
    RowCopies copies(gpu_, *home_, owner_, parts_, most);
    for (std::size_t first = 0; first < rows; first += most) {
      std::vector<std::uint32_t> numbers(std::min(most, rows - first));
      std::iota(numbers.begin(), numbers.end(), static_cast<std::uint32_t>(first));
      visit_copies(copies, numbers, use, [&](const VisitedRows& visited) {
        f(visited.arrays, first, first + numbers.size());
      });
    }
  }
  RowArrays whole(std::size_t rows) override { return home_->whole(rows); }

  std::optional<StoredRows> stored(const std::vector<std::uint32_t>& numbers) override {
    std::optional<StoredRows> found = home_->stored(numbers);
    if (found && !numbers.empty()) leave_out_changed(numbers, *found);
    return found;
  }

 private:
  void visit_copies(RowCopies& copies, const std::vector<std::uint32_t>& numbers, RowUse use,
                    const RowVisit& f) {
    const OpContext context = gpu_.plan_context();
    {
      const std::lock_guard lock(mutex_);
      await_steps(*context.stream);
      copies.read(context, at_places(), numbers);
    }
    f({copies.arrays(), &copies.places()});
    if (use == RowUse::Read) return;
    const std::lock_guard lock(mutex_);
    copies.write(context, at_places());
  }

  /// Of rows that have changed at a place, what the disk has is old.
  void leave_out_changed(const std::vector<std::uint32_t>& numbers, StoredRows& stored) {
    const std::lock_guard lock(mutex_);
    if (places_ == 0) return;
    Stream& stream = gpu_.plan_stream();
    await_steps(stream);
    std::vector<std::uint32_t> rows(places_), mark(places_);
    stream.copy(rows.data(), rows_at_places().data, places_ * sizeof rows[0]);
    stream.copy(mark.data(), marks().data, places_ * sizeof mark[0]);
    stream.synchronize();
    std::vector<bool> changed(rows_, false);
    for (std::size_t p = 0; p < places_; ++p) {
      if (CacheMark::leaves(mark[p])) changed[rows[p]] = true;
    }
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (changed[numbers[i]]) stored.at[i] = {};
    }
  }
};

}  // namespace

std::unique_ptr<RowStore> make_cached_rows(GPUResource& gpu, std::unique_ptr<RowBacking> home,
                                           const std::string& table, const std::string& owner,
                                           const RowParts& parts, std::size_t places,
                                           std::size_t max_rows, std::size_t least_ranked) {
  if (home->is_whole()) {
    return std::make_unique<CachedOverWhole>(gpu, std::move(home), table, owner, parts, places,
                                             max_rows, least_ranked);
  }
  return std::make_unique<CachedOverDisk>(gpu, std::move(home), table, owner, parts, places,
                                          max_rows, least_ranked);
}

}  // namespace hugectr
