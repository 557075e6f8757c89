// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_staging.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/cpp/device/work_counts.hpp"
#include "core/cpp/embedding/storage/no_room.hpp"
#include "core/cpp/embedding/table/cached_rows.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"

/// Rows of plans of several tables, staged together, against arrays of what each row must hold.
namespace hugectr::test {
namespace {

constexpr std::size_t kRows = 400, kDim = 3;
const RowParts kParts{.vec_size = kDim, .states = {1}};

/// Rows at home that can fail to move, and take no part in ops of several tables then.
class UnreliableRows final : public RowBacking {
 public:
  UnreliableRows(std::unique_ptr<RowBacking> rows, const bool& fails)
      : rows_(std::move(rows)), fails_(fails) {}

  void grow_to(std::size_t rows) override { rows_->grow_to(rows); }
  void move(const OpContext& context, const RowArrays& cache, const RowMoves& moves) override {
    if (fails_) throw DeviceError("the rows at home are gone");
    rows_->move(context, cache, moves);
  }
  RowArrays whole(std::size_t rows) override { return rows_->whole(rows); }
  bool overlaps(const void* begin, std::size_t bytes) const override {
    return rows_->overlaps(begin, bytes);
  }
  std::size_t host_bytes() const override { return rows_->host_bytes(); }

 private:
  std::unique_ptr<RowBacking> rows_;
  const bool& fails_;
};

/// Rows at a home that shows copies alone and can be full, as a disk. Rows that were forgotten may
/// not come back to it as they were.
class RowsAsOnDisk final : public RowBacking {
 public:
  RowsAsOnDisk(std::unique_ptr<RowBacking> rows, const bool& is_full)
      : rows_(std::move(rows)), is_full_(is_full) {}

  void grow_to(std::size_t rows) override { rows_->grow_to(rows); }
  void ready(const OpContext&, const TensorRef&, std::size_t, std::size_t, std::size_t) override {
    if (is_full_) throw NoRoom("the disk is full");
  }
  void move(const OpContext& context, const RowArrays& cache, const RowMoves& moves) override {
    if (is_full_) throw DeviceError("nothing was to move");
    rows_->move(context, cache, moves);
    context.stream->synchronize();
    for (std::size_t i = 0; i < moves.count && !moves.leaving.empty(); ++i) {
      EXPECT_FALSE(gone_.contains(moves.leaving.ptr<std::uint32_t>()[i]));
    }
    for (std::size_t i = 0; i < moves.count && !moves.coming.empty(); ++i) {
      gone_.erase(moves.coming.ptr<std::uint32_t>()[i]);
    }
  }
  bool is_whole() const override { return false; }
  RowArrays whole(std::size_t) override { throw InvalidArgument("never in memory"); }
  void read(std::span<const std::uint32_t> numbers, const RowArrays& to) override {
    copy(numbers, rows_->whole(kRows), to, true);
  }
  void write(std::span<const std::uint32_t> numbers, const RowArrays& from) override {
    copy(numbers, rows_->whole(kRows), from, false);
  }
  void forget(std::span<const std::uint32_t> numbers) override {
    for (const std::uint32_t row : numbers) EXPECT_TRUE(gone_.insert(row).second);
  }
  void clear() override {
    for (std::uint32_t row = 0; row < kRows; ++row) gone_.insert(row);
  }
  bool overlaps(const void* begin, std::size_t bytes) const override {
    return rows_->overlaps(begin, bytes);
  }
  std::size_t host_bytes() const override { return rows_->host_bytes(); }

 private:
  void copy(std::span<const std::uint32_t> numbers, const RowArrays& home, const RowArrays& copies,
            bool out) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] == kNoRow) continue;
      if (!out) gone_.erase(numbers[i]);
      for (std::size_t p = 0; p < parts_of(home).size(); ++p) {
        float* const there = parts_of(home)[p].row<float>(numbers[i]);
        float* const here = parts_of(copies)[p].row<float>(i);
        const std::size_t n = parts_of(home)[p].row_size();
        out ? std::copy_n(there, n, here) : std::copy_n(here, n, there);
      }
    }
  }

  std::unique_ptr<RowBacking> rows_;
  const bool& is_full_;
  std::set<std::uint32_t> gone_;
};

/// A variable of the environment, as long as this lives.
struct Variable {
  Variable(const char* name, const char* value) : name(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name); }
  const char* name;
};

class RowStagings : public ::testing::TestWithParam<const char*> {
 protected:
  struct Table {
    std::unique_ptr<RowStore> store;
    std::vector<float> wanted;          ///< the first number of each row
    std::set<std::uint32_t> forgotten;  ///< rows without content
    std::vector<std::uint32_t> keys, distinct;
    std::int64_t count = 0;
    StagedRows staged;
  };

  /// Tables whose homes are an op's, whose home is the host's own business, or is as a disk, and
  /// that have none.
  enum class Kind { Op, Host, Disk, Mapped };

  Table& add(Kind kind, std::size_t places) {
    const std::string name = concat("table", tables_.size());
    Table& table = *tables_.emplace_back(std::make_unique<Table>());
    const auto memory = gpu_.staging_resource();
    if (kind == Kind::Mapped) {
      table.store = make_mapped_rows(*memory, gpu_.device(), name, kParts, kRows);
    } else {
      auto home = make_host_rows(*memory, gpu_.device(), name, kParts, kRows);
      if (kind == Kind::Disk) home = std::make_unique<RowsAsOnDisk>(std::move(home), is_full_);
      if (kind == Kind::Host) home = std::make_unique<UnreliableRows>(std::move(home), fails_);
      table.store =
          make_cached_rows(gpu_, std::move(home), name, name, kParts, places, kRows, least_ranked_);
    }
    table.store->grow_to(kRows);
    table.wanted.resize(kRows);
    const auto number = static_cast<float>(1000 * tables_.size());
    table.store->scan(gpu_.compute_context(), kRows, RowUse::Write,
                      [&](const RowArrays& rows, std::size_t first, std::size_t last) {
                        for (std::size_t r = first; r < last; ++r) {
                          table.wanted[r] = number + static_cast<float>(r);
                          write(rows, r - first, table.wanted[r]);
                        }
                      });
    return table;
  }
  static void write(const RowArrays& rows, std::size_t place, float value) {
    for (std::size_t j = 0; j < kDim; ++j) rows.vectors.row<float>(place)[j] = value;
    *rows.states[0].row<float>(place) = -value;
  }
  static void expect(const RowArrays& rows, std::size_t place, float value) {
    for (std::size_t j = 0; j < kDim; ++j) EXPECT_EQ(rows.vectors.row<float>(place)[j], value);
    EXPECT_EQ(*rows.states[0].row<float>(place), -value);
  }

  /// Draws keys of every table and stages their rows.
  void stage(std::size_t plan, std::size_t most, bool train) {
    std::vector<RowStaging::Rows> rows;
    for (const auto& table : tables_) {
      table->keys.clear();
      const std::size_t n = 1 + random_() % most;
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t range = random_() % 3 ? kRows / 8 : kRows;
        table->keys.push_back(static_cast<std::uint32_t>(random_() % range));
      }
      const std::set<std::uint32_t> sorted(table->keys.begin(), table->keys.end());
      table->distinct.assign(sorted.begin(), sorted.end());
      table->count = static_cast<std::int64_t>(sorted.size());
      if (!train) table->keys.push_back(kNoRow);
      rows.push_back({table->store.get(),
                      kRows,
                      {.of_keys = ref(table->keys),
                       .distinct = ref(table->distinct),
                       .count = make_ref(&table->count, {1}, gpu_.device()),
                       .train = train,
                       .fresh_from = kRows}});
    }
    const std::vector<StagedRows> staged = staging_.stage(plan, rows);
    for (std::size_t t = 0; t < tables_.size(); ++t) tables_[t]->staged = staged[t];
    gpu_.plan_stream().synchronize();
    gpu_.move_stream().synchronize();
  }
  /// Finds the plan's rows where they were said to be, and changes them as a step would.
  void step(std::size_t plan, bool train) {
    for (const auto& table : tables_) {
      const StagedRows& staged = table->staged;
      for (std::size_t i = 0; i < table->keys.size(); ++i) {
        const std::uint32_t row = table->keys[i];
        const std::uint32_t place = staged.of_keys.ptr<std::uint32_t>()[i];
        if (row == kNoRow) {
          EXPECT_EQ(place, kNoRow);
        } else if (!table->forgotten.contains(row)) {
          expect(staged.arrays, place, table->wanted[row]);
        }
      }
      for (std::size_t i = 0; train && i < table->distinct.size(); ++i) {
        float& value = table->wanted[table->distinct[i]];
        value += 0.5f;
        table->forgotten.erase(table->distinct[i]);
        write(staged.arrays, staged.distinct.ptr<std::uint32_t>()[i], value);
      }
    }
    gpu_.compute_stream().record(*released_);
    for (const auto& table : tables_) table->store->release(plan, released_);
  }
  /// As who asks for some rows finds them, and changes some.
  void visit_some() {
    gpu_.compute_stream().synchronize();
    for (const auto& table : tables_) {
      std::set<std::uint32_t> drawn;
      while (drawn.size() < 30) drawn.insert(static_cast<std::uint32_t>(random_() % kRows));
      std::vector<std::uint32_t> rows(drawn.begin(), drawn.end());
      std::shuffle(rows.begin(), rows.end(), random_);
      rows.insert(rows.begin() + 5, kNoRow);
      for (const RowUse use : {RowUse::Write, RowUse::Read}) {
        table->store->visit(gpu_.plan_context(), kRows, rows, use, [&](const VisitedRows& visited) {
          for (std::size_t i = 0; i < rows.size(); ++i) {
            const std::uint32_t place = visited.places ? visited.places->at(i) : rows[i];
            ASSERT_EQ(place == kNoRow, rows[i] == kNoRow);
            if (rows[i] == kNoRow) continue;
            if (!table->forgotten.contains(rows[i])) {
              expect(visited.arrays, place, table->wanted[rows[i]]);
            }
            if (use == RowUse::Read) continue;
            table->forgotten.erase(rows[i]);
            write(visited.arrays, place, table->wanted[rows[i]] += 0.25f);
          }
        });
      }
    }
  }
  void expect_all() {
    gpu_.compute_stream().synchronize();
    for (const auto& table : tables_) {
      table->store->scan(gpu_.compute_context(), kRows, RowUse::Read,
                         [&](const RowArrays& rows, std::size_t first, std::size_t last) {
                           for (std::size_t r = first; r < last; ++r) {
                             if (table->forgotten.contains(static_cast<std::uint32_t>(r))) continue;
                             expect(rows, r - first, table->wanted[r]);
                           }
                         });
    }
  }
  void forget_some() {
    gpu_.compute_stream().synchronize();
    for (const auto& table : tables_) {
      std::vector<std::uint32_t> rows;
      for (std::uint32_t row = 0; row < kRows; ++row) {
        if (random_() % 16 == 0 && table->forgotten.insert(row).second) rows.push_back(row);
      }
      table->store->forget(gpu_.plan_context(), ref(rows));
    }
  }
  std::uint64_t ops_of_a_plan() {
    const std::uint64_t before = work_counts().ops;
    stage(0, 40, true);
    const std::uint64_t ops = work_counts().ops - before;
    step(0, true);
    return ops;
  }

  TensorRef ref(std::vector<std::uint32_t>& values) {
    return make_ref(values.data(), {values.size()}, gpu_.device());
  }

  const Variable moved_by_{"HUGECTR_MOVE_ROWS", GetParam()};
  std::shared_ptr<ResourceManager> resources_ = ResourceManager::create({{0}}, 1);
  GPUResource& gpu_ = resources_->get_local_gpu(0);
  RowStaging staging_{gpu_};
  std::shared_ptr<Event> released_ = gpu_.create_event();
  bool fails_ = false, is_full_ = false;
  std::size_t least_ranked_ = kLeastRanked;  ///< of tables added from here on
  std::mt19937_64 random_{7};
  std::vector<std::unique_ptr<Table>> tables_;
};

INSTANTIATE_TEST_SUITE_P(MovedBy, RowStagings, ::testing::Values("device", "host"),
                         [](const auto& mover) { return std::string(mover.param); });

TEST_P(RowStagings, BringTheRowsOfTablesOfEveryKind) {
  for (const Kind kind : {Kind::Op, Kind::Mapped, Kind::Host, Kind::Op}) {
    add(kind, 120);
    least_ranked_ = 9;
  }
  for (std::size_t n = 0; n < 60; ++n) {
    const bool train = n % 4 != 3;
    stage(n % 3, 40, train);
    step(n % 3, train);
    if (n % 17 == 5) expect_all();
  }
  expect_all();
  for (const std::size_t t : {0, 2, 3}) {
    EXPECT_GT(tables_[t]->store->counts().bytes_fetched, 0u) << t;
    EXPECT_GT(tables_[t]->store->counts().bytes_written_back, 0u) << t;
  }
}

TEST_P(RowStagings, ThatSwapHomesAreFoundByWhoAsksForThemAtAnyTime) {
  for (const Kind kind : {Kind::Op, Kind::Host, Kind::Op}) {
    add(kind, 90);
    least_ranked_ = 1;
  }
  for (std::size_t n = 0; n < 240; ++n) {
    const bool train = random_() % 3 > 0;
    stage(n % 3, 40, train);
    step(n % 3, train);
    if (random_() % 4 == 0) visit_some();
    if (random_() % 16 == 0) expect_all();
  }
  visit_some();
  expect_all();
}

TEST_P(RowStagings, AreReadBesideTheirPlacesWhileNoneMayLeaveThose) {
  for (const Kind kind : {Kind::Disk, Kind::Op, Kind::Disk, Kind::Mapped}) {
    add(kind, 90);
    least_ranked_ = 1;
  }
  for (std::size_t n = 0; n < 300; ++n) {
    is_full_ = n % 20 >= 12;
    const bool train = !is_full_ && random_() % 3 > 0;
    stage(n % 3, 40, train);
    step(n % 3, train);
    if (random_() % 4 == 0) visit_some();
    if (random_() % 16 == 0) expect_all();
  }
  is_full_ = true;
  EXPECT_THROW(stage(0, 40, true), NoRoom);
  for (const auto& table : tables_) table->store->release(0, nullptr);
  expect_all();
  is_full_ = false;
  for (std::size_t n = 0; n < 10; ++n) {
    stage(n % 2, 40, true);
    step(n % 2, true);
  }
  expect_all();
}

TEST_P(RowStagings, ThatAreForgottenGoNowhereAndBeginAnew) {
  for (const Kind kind : {Kind::Disk, Kind::Op, Kind::Host, Kind::Mapped}) {
    add(kind, 90);
    least_ranked_ = 1;
  }
  for (std::size_t n = 0; n < 400; ++n) {
    const bool train = random_() % 3 > 0;
    stage(n % 3, 40, train);
    step(n % 3, train);
    if (random_() % 4 == 0) forget_some();
    if (random_() % 8 == 0) visit_some();
    if (random_() % 16 == 0) expect_all();
    if (n % 100 != 50) continue;
    gpu_.compute_stream().synchronize();
    for (const auto& table : tables_) {
      table->store->clear(gpu_.plan_context());
      for (std::uint32_t row = 0; row < kRows; ++row) table->forgotten.insert(row);
    }
  }
  expect_all();
}

TEST_P(RowStagings, StayWhereTheyAreUntilTheirPlanIsReleased) {
  for (const std::size_t least : {std::size_t{1}, std::size_t{30}, kLeastRanked}) {
    least_ranked_ = least;
    Table& table = add(Kind::Op, 140);
    struct Plan {
      bool holds = false, train = false;
      std::vector<std::uint32_t> keys, places;
      RowArrays arrays;
    };
    std::vector<Plan> plans(6);
    for (int n = 0; n < 900; ++n) {
      const std::size_t slot = random_() % plans.size();
      Plan& plan = plans[slot];
      if (plan.holds) {
        gpu_.compute_stream().record(*released_);
        table.store->release(slot, released_);
        plan.holds = false;
        continue;
      }
      std::set<std::uint32_t> drawn;
      for (int i = 0; i < 20; ++i) {
        drawn.insert(static_cast<std::uint32_t>(random_() % (random_() % 3 ? kRows / 8 : kRows)));
      }
      plan.keys.assign(drawn.begin(), drawn.end());
      plan.train = random_() % 3 > 0;
      std::int64_t count = static_cast<std::int64_t>(plan.keys.size());
      const std::vector<RowStaging::Rows> rows{{table.store.get(),
                                                kRows,
                                                {.of_keys = ref(plan.keys),
                                                 .distinct = ref(plan.keys),
                                                 .count = make_ref(&count, {1}, gpu_.device()),
                                                 .train = plan.train,
                                                 .fresh_from = kRows}}};
      const StagedRows staged = staging_.stage(slot, rows)[0];
      gpu_.plan_stream().synchronize();
      gpu_.move_stream().synchronize();
      plan.holds = true;
      plan.arrays = staged.arrays;
      plan.places.assign(staged.of_keys.ptr<std::uint32_t>(),
                         staged.of_keys.ptr<std::uint32_t>() + plan.keys.size());
      for (const Plan& each : plans) {
        for (std::size_t i = 0; each.holds && i < each.keys.size(); ++i) {
          float& wanted = table.wanted[each.keys[i]];
          expect(each.arrays, each.places[i], wanted);
          if (each.train) write(each.arrays, each.places[i], wanted += 0.5f);
        }
      }
      ASSERT_FALSE(HasFailure()) << "plan " << n << ", least " << least;
    }
    for (std::size_t slot = 0; slot < plans.size(); ++slot) table.store->release(slot, nullptr);
    expect_all();
    tables_.clear();
  }
}

TEST_P(RowStagings, OfARowThatWasOnlyReadAndSwappedComeBack) {
  Table& table = add(Kind::Op, 80);
  const auto stage_rows = [&](std::size_t plan, std::uint32_t first, std::uint32_t count,
                              bool train) {
    table.keys.resize(count);
    std::iota(table.keys.begin(), table.keys.end(), first);
    table.distinct = table.keys;
    table.count = count;
    const std::vector<RowStaging::Rows> rows{{table.store.get(),
                                              kRows,
                                              {.of_keys = ref(table.keys),
                                               .distinct = ref(table.distinct),
                                               .count = make_ref(&table.count, {1}, gpu_.device()),
                                               .train = train,
                                               .fresh_from = kRows}}};
    table.staged = staging_.stage(plan, rows)[0];
    gpu_.plan_stream().synchronize();
    gpu_.move_stream().synchronize();
    step(plan, train);
  };
  stage_rows(0, 0, 40, true);
  stage_rows(1, 40, 40, true);
  const std::uint64_t before = table.store->counts().bytes_written_back;
  for (std::uint32_t n = 0; n < 7; ++n) stage_rows(2, 80 + 40 * n, 40, false);  // nothing changes
  stage_rows(2, 0, 1, false);  // what is counted is told by the next plan
  EXPECT_GT(table.store->counts().bytes_written_back, before);
  for (std::uint32_t n = 0; n < 10; ++n) stage_rows(n % 2, 40 * n, 40, n % 3 == 0);
  visit_some();
  expect_all();
}

TEST_P(RowStagings, TakeAsManyOpsForManyTablesAsForTwo) {
  add(Kind::Op, 100);
  add(Kind::Op, 100);
  // find, rank, take, move (or gather and scatter, by the host), places
  const std::uint64_t ops = std::string(GetParam()) == "host" ? 6 : 5;
  EXPECT_LE(ops_of_a_plan(), ops);
  for (int i = 0; i < 10; ++i) add(Kind::Op, 100);
  EXPECT_LE(ops_of_a_plan(), ops);
  expect_all();
}

TEST_P(RowStagings, OfATableThatIsTooSmallLeaveTheOthersAsTheyWere) {
  least_ranked_ = 1;
  add(Kind::Op, 120);
  add(Kind::Op, 2);
  add(Kind::Host, 120);
  EXPECT_THROW(stage(0, 60, true), OutOfMemory);
  for (const auto& table : tables_) {
    table->store->release(0, nullptr);
    EXPECT_EQ(table->store->counts().bytes_fetched, 0u);
  }
  for (std::size_t n = 0; n < 8; ++n) {
    stage(1 + n % 2, 1, true);  // two rows of two plans: that fits
    step(1 + n % 2, true);
  }
  expect_all();
}

TEST_P(RowStagings, WhenAMoveFailsTheRowsOfOtherTablesHaveComeAllTheSame) {
  add(Kind::Op, 120);
  add(Kind::Host, 120);
  add(Kind::Op, 120);
  for (std::size_t n = 0; n < 9; ++n) {
    stage(n % 2, 50, true);
    step(n % 2, true);
  }
  fails_ = true;
  EXPECT_THROW(stage(1, 50, true), DeviceError);
  for (const auto& table : tables_) table->store->release(1, nullptr);
  tables_.erase(tables_.begin() + 1);
  for (std::size_t n = 0; n < 20; ++n) {
    stage(n % 2, 50, true);
    step(n % 2, true);
  }
  expect_all();
}

}  // namespace
}  // namespace hugectr::test
