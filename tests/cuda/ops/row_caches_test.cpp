// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/device/work_counts.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/move_rows.hpp"
#include "core/cpp/ops/row_cache.hpp"
#include "tests/cuda/gpu.hpp"

/// Plans through the caches of many tables at once, on a GPU and on the CPU a table after the
/// other: the same places, lists, reports and rows.
namespace hugectr {
namespace {

using Numbers = std::vector<std::uint32_t>;

/// An array on both devices. `claimed`: elements that ops are told of, more than they touch.
template <class T>
class OnBoth {
 public:
  OnBoth(GPUResource& gpu, std::vector<T> values, std::size_t claimed = 0)
      : gpu_(gpu),
        host_(std::move(values)),
        on_gpu_(gpu.device(), host_.size() + 1),
        claimed_(std::max(claimed, host_.size())) {
    on_gpu_.set(gpu.plan_stream(), host_);
  }
  TensorRef ref(bool gpu, Shape shape = {}) {
    if (shape.empty()) shape = {claimed_};
    return gpu ? make_ref(on_gpu_.data(), shape, gpu_.device()) : make_ref(host_.data(), shape);
  }
  void set(std::vector<T> values) {
    host_ = std::move(values);
    on_gpu_.set(gpu_.plan_stream(), host_);
  }
  const std::vector<T>& host() const { return host_; }
  std::vector<T> on_gpu() const {
    std::vector<T> values(host_.size());
    gpu_.plan_stream().copy(values.data(), on_gpu_.data(), values.size() * sizeof(T));
    gpu_.plan_stream().synchronize();
    return values;
  }
  void expect_same(std::size_t first = SIZE_MAX) const {
    const std::size_t n = std::min(first, host_.size());
    const std::vector<T> found = on_gpu();
    EXPECT_TRUE(
        std::equal(host_.begin(), host_.begin() + static_cast<std::ptrdiff_t>(n), found.begin()));
  }

 private:
  GPUResource& gpu_;
  std::vector<T> host_;
  DeviceArray<T> on_gpu_;
  std::size_t claimed_;
};

struct Table {
  Table(GPUResource& gpu, std::size_t places, std::size_t rows, std::size_t most,
        std::size_t claimed_rows, std::size_t dim, bool swaps, std::size_t least)
      : gpu(gpu),
        rows(rows),
        most(most),
        dim(dim),
        least(static_cast<std::int64_t>(least)),
        swaps(swaps),
        place_of(gpu, Numbers(rows), claimed_rows),
        shifts(gpu, Numbers(rows), claimed_rows),
        homes(gpu, Numbers(rows)),
        numbers(gpu, Numbers(places)),
        marks(gpu, Numbers(places)),
        report(gpu, std::vector<std::int64_t>(CacheReport::kSize)),
        told(gpu, std::vector<std::int64_t>(CacheReport::kSize)),
        cache(gpu, std::vector<float>(places * dim)),
        home(gpu, counted(rows * dim)),
        cached_state(gpu, std::vector<std::uint8_t>(places * 3)),
        home_state(gpu, std::vector<std::uint8_t>(rows * 3, 7)) {}

  static std::vector<float> counted(std::size_t n) {
    std::vector<float> values(n);
    std::iota(values.begin(), values.end(), 1.0f);
    return values;
  }
  /// Rows of the next plan, ascending; evaluations have one that is none.
  void draw(std::mt19937_64& random, bool train) {
    Numbers found;
    const std::size_t n = most - random() % (most / 2 + 1);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t range = random() % 2 ? rows : std::max<std::size_t>(1, rows / 16);
      found.push_back(static_cast<std::uint32_t>(random() % range));
    }
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    if (!train) found.push_back(kNoRow);
    drawn = found.size();
    found.resize(found.size() + 9, 5);  // behind the count
    const std::size_t room = found.size();
    distinct = std::make_unique<OnBoth<std::uint32_t>>(gpu, std::move(found));
    count = std::make_unique<OnBoth<std::int64_t>>(
        gpu, std::vector<std::int64_t>{static_cast<std::int64_t>(drawn)});
    for (auto* list : {&missing, &places, &leaving, &coming, &found_places}) {
      *list = std::make_unique<OnBoth<std::uint32_t>>(gpu, Numbers(room));
    }
  }
  /// The plan's places stay pinned for one plan more.
  void hold() {
    held[0] = std::move(held[1]);
    held[1] = {std::move(found_places), static_cast<std::size_t>(told.host()[CacheReport::kRows])};
  }
  CacheRelease release(bool on, std::int64_t plan) {
    return {held[0].places->ref(on, {held[0].rows}), marks.ref(on), plan};
  }
  /// Where the next plan ranks.
  void pass() {
    const auto at = static_cast<std::int64_t>(marks.host().size());
    if (at > 0) first = (first + told.host()[CacheReport::kRanked]) % at;
  }
  CacheFind find(bool on, std::int64_t plan, bool train, std::int64_t now) {
    return {distinct->ref(on),
            count->ref(on),
            place_of.ref(on),
            marks.ref(on),
            missing->ref(on),
            report.ref(on),
            plan,
            now,
            train};
  }
  CacheRank rank(bool on, std::int64_t live, std::int64_t now) {
    return {marks.ref(on), report.ref(on), told.ref(on), live, now, first, least};
  }
  CacheTake take(bool on, std::int64_t plan, bool train, std::int64_t now) {
    const std::vector<std::int64_t>& found = told.host();
    const auto n = static_cast<std::size_t>(found[CacheReport::kMissing]);
    return {missing->ref(on, {n}),
            place_of.ref(on),
            numbers.ref(on),
            marks.ref(on),
            places->ref(on),
            leaving->ref(on),
            coming->ref(on),
            report.ref(on),
            swaps ? shifts.ref(on) : TensorRef{},
            plan,
            now,
            first,
            found[CacheReport::kRanked],
            found[CacheReport::kBound],
            found[CacheReport::kBelow],
            static_cast<std::int64_t>(rows - rows / 8),
            train};
  }
  MoveRows move(bool on) {
    const std::size_t at = marks.host().size();
    return {places->ref(on),
            leaving->ref(on),
            coming->ref(on),
            {cache.ref(on, {at, dim}), cached_state.ref(on, {at, 3})},
            {home.ref(on, {rows, dim}), home_state.ref(on, {rows, 3})},
            told.host()[CacheReport::kMissing]};
  }
  /// Of all rows, from their numbers.
  CacheHomes find_homes(bool on) { return {homes.ref(on), shifts.ref(on)}; }
  CachePlaces find_places(bool on) {
    return {distinct->ref(on), count->ref(on), place_of.ref(on), found_places->ref(on)};
  }
  void expect_same() {
    const auto n = static_cast<std::size_t>(told.host()[CacheReport::kMissing]);
    place_of.expect_same();
    shifts.expect_same();
    numbers.expect_same();
    marks.expect_same();
    report.expect_same();
    told.expect_same();
    for (auto* list : {&missing, &places, &leaving, &coming}) (*list)->expect_same(n);
    found_places->expect_same(drawn);
    cache.expect_same();
    home.expect_same();
    cached_state.expect_same();
    home_state.expect_same();
  }

  GPUResource& gpu;
  std::size_t rows, most, dim, drawn = 0;
  std::int64_t least, first = 0;
  bool swaps;
  OnBoth<std::uint32_t> place_of, shifts, homes, numbers, marks;
  OnBoth<std::int64_t> report, told;
  OnBoth<float> cache, home;
  OnBoth<std::uint8_t> cached_state, home_state;
  std::unique_ptr<OnBoth<std::uint32_t>> distinct, missing, places, leaving, coming, found_places;
  struct Held {
    std::unique_ptr<OnBoth<std::uint32_t>> places;
    std::size_t rows = 0;
  };
  Held held[2];  ///< of the last two plans
  std::unique_ptr<OnBoth<std::int64_t>> count;
};

class RowCaches : public GpuTest<> {
 protected:
  void SetUp() override {
    GpuTest<>::SetUp();
    if (IsSkipped()) return;
    gpus_ = ResourceManager::create({{0}}, 1, DeviceType::Cuda);
    cpus_ = ResourceManager::create({{0}}, 1);
  }
  GPUResource& gpu() { return gpus_->get_local_gpu(0); }
  void add(std::size_t places, std::size_t rows, std::size_t most, std::size_t dim,
           std::size_t claimed_rows = 0, std::size_t least = SIZE_MAX / 2) {
    // Every other table's rows swap homes: both kinds are launched together.
    tables_.push_back(std::make_unique<Table>(gpu(), places, rows, most, claimed_rows, dim,
                                              tables_.size() % 2 == 0, least));
  }
  /// make(table, whether for the GPU): of all tables, there together and here one by one.
  template <class Make>
  void run_both(const Make& make) {
    using Op = decltype(make(*tables_[0], true));
    std::vector<Op> ops;
    for (const auto& table : tables_) {
      ops.push_back(make(*table, true));
      run(cpus_->get_local_gpu(0).compute_context(), make(*table, false));
    }
    run_several(gpu().plan_context(), std::move(ops));
    gpu().plan_stream().synchronize();
    cpus_->get_local_gpu(0).compute_stream().synchronize();
  }
  /// Some plans, of which two are alive; launches of the last, those of moves not counted: they are
  /// one a table and part.
  std::uint64_t train(std::int64_t plans) {
    std::mt19937_64 random(11);
    std::uint64_t launches = 0;
    for (std::int64_t n = 0; n < plans; ++n) {
      const std::int64_t plan = n % 5, live = 1 << plan | 1 << (n + 4) % 5;
      const bool trains = n % 3 != 2;
      for (const auto& table : tables_) table->draw(random, trains);
      launches = work_counts().launches;
      std::uint64_t moves = 0;
      if (n > 1) {
        run_both([&](Table& t, bool on) { return t.release(on, (n + 3) % 5); });
      }
      // Time comes round, and goes over halvings.
      const std::int64_t now = (first_time_ += trains) & CacheMark::kTime;
      run_both([&](Table& t, bool on) { return t.find(on, plan, trains, now); });
      run_both([&](Table& t, bool on) { return t.rank(on, live, now); });
      for (const auto& table : tables_) {
        EXPECT_LE(table->told.host()[CacheReport::kMissing],
                  table->told.host()[CacheReport::kFree]);
      }
      run_both([&](Table& t, bool on) { return t.take(on, plan, trains, now); });
      moves = work_counts().launches;
      run_both([](Table& t, bool on) { return t.move(on); });
      moves = work_counts().launches - moves;
      run_both([](Table& t, bool on) { return t.find_places(on); });
      launches = work_counts().launches - launches - moves;
      for (const auto& table : tables_) {
        ranked_some_ += table->told.host()[CacheReport::kRanked] <
                        static_cast<std::int64_t>(table->marks.host().size());
        table->pass();
      }
      for (std::size_t t = 0; t < tables_.size(); ++t) {
        tables_[t]->expect_same();
        EXPECT_FALSE(HasFailure()) << "table " << t << ", plan " << n;
        if (HasFailure()) return launches;
        tables_[t]->hold();
      }
    }
    return launches;
  }
  std::int64_t moved(std::size_t table, std::size_t what) const {
    return tables_[table]->report.on_gpu()[what];
  }

  std::shared_ptr<ResourceManager> gpus_, cpus_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::int64_t first_time_ = CacheMark::kTime - 5;
  std::size_t ranked_some_ = 0;  ///< times that not all places of a table were ranked
};

TEST_F(RowCaches, OfManyTablesAreThoseOfEach) {
  for (std::size_t t = 0; t < 70; ++t) {  // more than a launch takes
    const std::size_t places = t == 9 ? 0 : 40 + 37 * t;
    add(places, 4 * places + 3, places / 3, 1 + t % 5 * 4);
  }
  train(24);
  EXPECT_EQ(moved(9, CacheReport::kFetched), 0);
  for (const std::size_t t : {0, 40, 69}) {
    EXPECT_GT(moved(t, CacheReport::kFetched), 0) << t;
    EXPECT_GT(moved(t, CacheReport::kSent), 0) << t;
  }
}

TEST_F(RowCaches, MayHaveMorePlacesThanAStretchAndMoreMissingRowsThanABlock) {
  add(3'000'000, 8'000'000, 900'000, 1);
  add(50, 300, 20, 4);
  add(70'000, 200'000, 30'000, 4);
  add(70'000, 200'000, 30'000, 4);
  train(14);
  EXPECT_GT(moved(0, CacheReport::kSent), 0);
}

TEST_F(RowCaches, RankAPartOfTheirPlacesOrAllWhereThatIsNotEnough) {
  add(60'000, 200'000, 1500, 4, 0, 700);
  add(2'000'000, 6'000'000, 9000, 1, 0, 20'000);
  add(4000, 12'000, 1900, 4, 0, 1);  // holds two plans, hardly more
  train(40);
  EXPECT_GT(ranked_some_, 60);
  EXPECT_GT(moved(1, CacheReport::kFetched), 100'000);
  EXPECT_GT(moved(2, CacheReport::kSent), 0);
}

TEST_F(RowCaches, WhoseRowsTogetherAreMoreThan32BitsAreSortedApart) {
  constexpr std::size_t kClaimed = 2'500'000'000;
  for (std::size_t t = 0; t < 5; ++t) add(900, 4000, 300, 4, t % 2 ? 0 : kClaimed);
  train(20);
  EXPECT_GT(moved(4, CacheReport::kSent), 0);
}

TEST_F(RowCaches, SwapHomesWhichStayAPermutation) {
  for (std::size_t t = 0; t < 2; ++t) add(900, 4000, 300, 8);
  train(30);
  for (const auto& table : tables_) {
    Numbers all(table->rows);
    std::iota(all.begin(), all.end(), 0u);
    table->homes.set(all);
    for (const bool on : {false, true}) {
      run(on ? gpu().plan_context() : cpus_->get_local_gpu(0).compute_context(),
          table->find_homes(on));
    }
    cpus_->get_local_gpu(0).compute_stream().synchronize();
    table->homes.expect_same();
    Numbers found = table->homes.host();
    EXPECT_EQ(found != all, table->swaps);
    std::ranges::sort(found);
    EXPECT_EQ(found, all);
  }
}

TEST_F(RowCaches, OfManyTablesAreLaunchedAsThoseOfTwo) {
  add(900, 4000, 300, 4);
  add(500, 4000, 100, 8);
  const std::uint64_t of_two = train(4);
  for (std::size_t t = 0; t < 20; ++t) add(300 + 40 * t, 3000, 90, 4);
  EXPECT_EQ(train(4), of_two);
}

}  // namespace
}  // namespace hugectr
