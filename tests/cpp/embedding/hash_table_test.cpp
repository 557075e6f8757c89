// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/hash_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/ops/hash_index.hpp"

namespace hugectr::test {
namespace {

template <class Key>
class HashTableOf : public ::testing::Test {
 protected:
  HashTable make(std::size_t max_rows, bool slots = false) {
    return HashTable(gpu_.memory_resource(), "test table", ScalarTypeOf<Key>::value, max_rows,
                     slots);
  }
  TensorRef ref(const std::vector<Key>& keys) {
    return make_ref(const_cast<Key*>(keys.data()), {keys.size()}, gpu_.device());
  }
  TensorRef ref(const std::vector<std::uint32_t>& numbers, int) {
    return make_ref(const_cast<std::uint32_t*>(numbers.data()), {numbers.size()}, gpu_.device());
  }
  std::vector<std::uint32_t> insert(HashTable& table, const std::vector<Key>& keys) {
    std::vector<std::uint32_t> rows(keys.size());
    result_ = table.get_insert(context_, ref(keys), {}, {}, ref(rows, 0));
    return rows;
  }
  std::vector<std::uint32_t> find(HashTable& table, const std::vector<Key>& keys,
                                  std::size_t limit = kNoRow) {
    std::vector<std::uint32_t> rows(keys.size());
    result_ = table.get_mark(context_, ref(keys), {}, {}, {.rows = limit}, ref(rows, 0));
    return rows;
  }
  static std::vector<Key> range(Key first, std::size_t count) {
    std::vector<Key> keys(count);
    std::iota(keys.begin(), keys.end(), first);
    return keys;
  }

  std::shared_ptr<ResourceManager> resources_ = ResourceManager::create({{0}}, 1);
  GPUResource& gpu_ = resources_->get_local_gpu(0);
  ThreadPool pool_{16};
  OpContext context_{&gpu_.plan_stream(), &pool_, nullptr, gpu_.device()};
  HashTable::Result result_;
};

using KeyTypes = ::testing::Types<std::uint32_t, std::int64_t>;
TYPED_TEST_SUITE(HashTableOf, KeyTypes);

TYPED_TEST(HashTableOf, OverlappingInsertsGiveEachKeyOneRow) {
  auto table = this->make(1 << 20);
  std::mt19937_64 random(5);
  std::map<TypeParam, std::uint32_t> row_of;
  for (int round = 0; round < 4; ++round) {
    // Few enough distinct keys that many threads meet at the same one.
    std::vector<TypeParam> keys(200'000);
    for (auto& key : keys) key = static_cast<TypeParam>(random() % (20'000 * (round + 1)));
    const auto rows = this->insert(table, keys);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto [place, is_first] = row_of.emplace(keys[i], rows[i]);
      ASSERT_EQ(place->second, rows[i]) << "key " << keys[i] << " has two rows";
    }
    ASSERT_EQ(table.size(), row_of.size());
  }
  std::set<std::uint32_t> rows;
  for (const auto& [key, row] : row_of) rows.insert(row);
  EXPECT_EQ(rows.size(), row_of.size());
  EXPECT_EQ(*rows.rbegin() + 1, row_of.size()) << "there are gaps";
  std::vector<TypeParam> keys;
  std::vector<std::uint32_t> slots;
  table.dump(this->context_, table.size(), keys, slots);
  for (std::size_t row = 0; row < keys.size(); ++row) ASSERT_EQ(row_of.at(keys[row]), row);
}

TYPED_TEST(HashTableOf, SixteenStreamsInsertIntoOneIndex) {
  // The op itself is safe from any number of streams at once, not only inside one launch.
  constexpr std::size_t kStreams = 16, kKeys = 4000, kCapacity = 1 << 14;
  std::vector<std::uint64_t> words(2 * kCapacity);
  std::vector<std::int64_t> counter(1);
  std::vector<TypeParam> row_keys(kCapacity);
  const auto on = [&](auto& v) { return make_ref(v.data(), {v.size()}, this->gpu_.device()); };
  const TensorRef index = make_ref(words.data(), {kCapacity, 2}, this->gpu_.device());
  run(this->context_, HashClear{.index = index});
  this->gpu_.plan_stream().synchronize();
  std::vector<std::vector<TypeParam>> keys(kStreams);
  std::vector<std::vector<std::uint32_t>> rows(kStreams, std::vector<std::uint32_t>(kKeys));
  std::vector<std::vector<std::int64_t>> reports(kStreams, std::vector<std::int64_t>(kReportSize));
  for (std::size_t s = 0; s < kStreams; ++s) {
    keys[s] = this->range(static_cast<TypeParam>(s * 300), kKeys);
    std::shuffle(keys[s].begin(), keys[s].end(), std::mt19937_64(s));
  }
  std::vector<std::thread> threads;
  for (std::size_t s = 0; s < kStreams; ++s) {
    threads.emplace_back([&, s] {
      auto stream = DeviceBackend::get(DeviceType::Cpu).create_stream(this->gpu_.device(), "test");
      ThreadPool pool(1);
      run(OpContext{stream.get(), &pool, nullptr, this->gpu_.device()},
          HashGetInsert{.keys = on(keys[s]),
                        .index = index,
                        .counter = on(counter),
                        .row_keys = on(row_keys),
                        .rows = on(rows[s]),
                        .report = on(reports[s])});
      stream->synchronize();
    });
  }
  for (auto& thread : threads) thread.join();
  std::map<TypeParam, std::uint32_t> row_of;
  for (std::size_t s = 0; s < kStreams; ++s) {
    for (std::size_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(row_of.emplace(keys[s][i], rows[s][i]).first->second, rows[s][i]);
    }
  }
  EXPECT_EQ(row_of.size(), (kStreams - 1) * 300 + kKeys);
  EXPECT_EQ(counter[0], static_cast<std::int64_t>(row_of.size()));
  for (const auto& [key, row] : row_of) ASSERT_EQ(row_keys[row], key);
}

/// What is begun and given up leaves the table as it was, free rows too.
TYPED_TEST(HashTableOf, HalvesAreTheWholeOrNothing) {
  auto table = this->make(1 << 12);
  const auto first = this->range(0, 100), second = this->range(80, 60);
  const auto row_of = this->insert(table, first);
  const std::vector<std::uint32_t> gone(row_of.begin(), row_of.begin() + 10);
  table.erase(this->context_, this->ref(gone, 0));
  const HashTable::State before = table.state();
  std::vector<std::uint32_t> rows(second.size());
  const auto begin = [&] {
    run(this->context_,
        table.to_get_insert(this->context_, this->ref(second), {}, {}, this->ref(rows, 0)));
    table.read_outcome(this->context_);
    this->context_.stream->synchronize();
  };
  begin();
  table.take_back(this->context_, before);
  EXPECT_EQ(table.state(), before);
  EXPECT_EQ(this->find(table, second), [&] {
    std::vector<std::uint32_t> found(second.size(), kNoRow);
    std::copy(row_of.begin() + 80, row_of.end(), found.begin());
    return found;
  }());
  begin();
  EXPECT_EQ(table.inserted(this->context_).rows, 130u) << "90 that were left and 40 new ones";
  EXPECT_EQ(table.state(), (HashTable::State{130, 0}));
  EXPECT_EQ(this->find(table, second), rows);
  run(this->context_, table.to_get_mark(this->context_, this->ref(second), {}, {}, {.rows = 100},
                                        this->ref(rows, 0)));
  table.read_outcome(this->context_);
  this->context_.stream->synchronize();
  EXPECT_EQ(table.marked().first_reserved, -1);
  EXPECT_EQ(rows, this->find(table, second, 100));
}

TYPED_TEST(HashTableOf, GrowsUnderLoadAndKeepsItsRows) {
  auto table = this->make(1 << 20);
  const auto first = this->range(0, 700);
  const auto first_rows = this->insert(table, first);
  const std::size_t small = table.capacity();
  for (int i = 1; i <= 30; ++i) this->insert(table, this->range(700 * i, 700));
  EXPECT_GT(table.capacity(), small);
  EXPECT_GE(table.capacity() * 3, table.size() * 4) << "load above three quarters";
  EXPECT_EQ(this->find(table, first), first_rows);
  EXPECT_EQ(table.size(), 31u * 700);
}

TYPED_TEST(HashTableOf, MissingKeysAndRowsBeyondTheLimit) {
  auto table = this->make(100);
  EXPECT_EQ(this->find(table, {1, 2}), (std::vector<std::uint32_t>{kNoRow, kNoRow}));
  this->insert(table, {7});
  this->insert(table, {8});
  EXPECT_EQ(this->find(table, {8, 7, 9}), (std::vector<std::uint32_t>{1, 0, kNoRow}));
  EXPECT_EQ(this->find(table, {8, 7}, 1), (std::vector<std::uint32_t>{kNoRow, 0}));
  const std::vector<TypeParam> there{8}, missing{7, 5};
  std::vector<std::uint32_t> rows(1), two(2);
  table.get(this->context_, this->ref(there), {}, {}, this->ref(rows, 0));
  EXPECT_EQ(rows[0], 1u);
  EXPECT_THROW(table.get(this->context_, this->ref(missing), {}, {}, this->ref(two, 0)),
               InvalidArgument);
}

TYPED_TEST(HashTableOf, TheReservedKeyIsReportedAndNotStored) {
  auto table = this->make(100);
  const auto rows = this->insert(table, {1, 2, kEmptyKey<TypeParam>, 3, kEmptyKey<TypeParam>});
  EXPECT_EQ(this->result_.first_reserved, 2);
  EXPECT_EQ(rows[2], kNoRow);
  EXPECT_EQ(table.size(), 3u);
  this->find(table, {1, kEmptyKey<TypeParam>});
  EXPECT_EQ(this->result_.first_reserved, 1);
  this->find(table, {1, 2});
  EXPECT_EQ(this->result_.first_reserved, -1);
}

TYPED_TEST(HashTableOf, AFullTableCountsOnAndCanGoBack) {
  auto table = this->make(5000);
  const auto known = this->range(0, 4000);
  const auto known_rows = this->insert(table, known);
  this->insert(table, this->range(0, 9000));
  EXPECT_EQ(this->result_.rows, 9000u) << "what would have been needed";
  EXPECT_EQ(table.size(), 5000u);
  table.take_back(this->context_, {.rows = 4000});
  EXPECT_EQ(this->find(table, known), known_rows);
  EXPECT_EQ(this->find(table, {4000, 8999}), (std::vector<std::uint32_t>{kNoRow, kNoRow}));
  EXPECT_EQ(this->insert(table, {8999}), std::vector<std::uint32_t>{4000});
  table.clear(this->context_);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(this->insert(table, {5}), std::vector<std::uint32_t>{0});
}

TYPED_TEST(HashTableOf, ErasedRowsAreGoneAndTheirNumbersAreUsedAgain) {
  auto table = this->make(5000);
  const auto keys = this->range(10, 3000);
  const auto rows = this->insert(table, keys);
  std::vector<std::uint32_t> gone(rows.begin() + 500, rows.begin() + 900);
  table.erase(this->context_, this->ref(gone, 0));
  EXPECT_EQ(table.size(), 3000u);
  EXPECT_EQ(table.live(), 2600u);
  const auto found = this->find(table, keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(found[i], i >= 500 && i < 900 ? kNoRow : rows[i]) << "key " << keys[i];
  }

  // 300 keys that were there, 50 that never were: all numbers come from those that are free.
  const auto before = table.state();
  auto back = this->range(600, 300);
  const auto fresh = this->range(9000, 50);
  back.insert(back.end(), fresh.begin(), fresh.end());
  const auto again = this->insert(table, back);
  EXPECT_EQ(this->result_.rows, 2950u);
  EXPECT_EQ(table.size(), 3000u);
  const std::set<std::uint32_t> free(gone.begin(), gone.end());
  std::set<std::uint32_t> used;
  for (std::size_t i = 0; i < back.size(); ++i) {
    used.insert(again[i]);
    EXPECT_TRUE(free.count(again[i])) << "key " << back[i] << " has row " << again[i];
  }
  EXPECT_EQ(used.size(), back.size()) << "a number was given twice";
  EXPECT_EQ(this->find(table, back), again);
  std::vector<TypeParam> dumped;
  std::vector<std::uint32_t> slots;
  table.dump(this->context_, table.size(), dumped, slots);
  for (std::size_t i = 0; i < back.size(); ++i) ASSERT_EQ(dumped[again[i]], back[i]);
  EXPECT_EQ(std::count(dumped.begin(), dumped.end(), kEmptyKey<TypeParam>), 50);

  // More new keys than free numbers, over the budget, and back again.
  this->insert(table, this->range(20'000, 3000));
  EXPECT_EQ(this->result_.rows, 5950u) << "what would have been needed";
  table.take_back(this->context_, before);
  EXPECT_EQ(table.live(), 2600u);
  EXPECT_EQ(this->find(table, keys), found);
  EXPECT_EQ(this->find(table, this->range(20'000, 3000)), std::vector<std::uint32_t>(3000, kNoRow));
  this->insert(table, this->range(20'000, 2400));
  EXPECT_EQ(table.live(), 5000u);
  EXPECT_EQ(table.size(), 5000u);
}

/// Rows come, go and come back, at every load that an index of one size has, and many of its places
/// are dead in between; beside a map.
TYPED_TEST(HashTableOf, RowsComeAndGoAndComeBack) {
  for (const std::size_t most : {800u, 1100u, 1500u}) {
    auto table = this->make(1 << 14);
    std::mt19937_64 random(most);
    std::map<TypeParam, std::uint32_t> row_of;
    std::size_t capacity = 0;
    for (int round = 0; round < 60; ++round) {
      // Half of the keys were there before, often among those that went.
      std::vector<TypeParam> keys(300);
      for (auto& key : keys) {
        key = static_cast<TypeParam>(random() % (random() % 2 ? 2000 : 50'000));
      }
      const auto rows = this->insert(table, keys);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const auto [there, is_new] = row_of.emplace(keys[i], rows[i]);
        ASSERT_EQ(there->second, rows[i]) << "key " << keys[i] << " in round " << round;
      }
      ASSERT_EQ(table.live(), row_of.size());
      std::set<std::uint32_t> distinct;
      for (const auto& [key, row] : row_of) distinct.insert(row);
      ASSERT_EQ(distinct.size(), row_of.size()) << "two keys have one row";
      std::vector<std::uint32_t> gone;
      std::vector<TypeParam> gone_keys;
      while (row_of.size() - gone.size() > most) {
        const auto it = row_of.lower_bound(static_cast<TypeParam>(random() % 50'000));
        if (it == row_of.end()) continue;
        if (std::count(gone_keys.begin(), gone_keys.end(), it->first) > 0) continue;
        gone.push_back(it->second);
        gone_keys.push_back(it->first);
      }
      table.erase(this->context_, this->ref(gone, 0));
      for (const TypeParam key : gone_keys) row_of.erase(key);
      ASSERT_EQ(this->find(table, gone_keys), std::vector<std::uint32_t>(gone.size(), kNoRow));
      std::vector<TypeParam> left;
      std::vector<std::uint32_t> rows_left;
      for (const auto& [key, row] : row_of) {
        left.push_back(key);
        rows_left.push_back(row);
      }
      ASSERT_EQ(this->find(table, left), rows_left) << "round " << round;
      if (round == 30) capacity = table.capacity();
    }
    EXPECT_EQ(table.capacity(), capacity) << "rows that went made the index grow";
  }
}

TYPED_TEST(HashTableOf, ALoadTakesKeysThatWereErasedBefore) {
  auto table = this->make(1 << 12);
  const auto keys = this->range(0, 700);
  const auto rows = this->insert(table, keys);
  table.erase(this->context_, this->ref(rows, 0));
  table.insert(this->context_, this->ref(keys), {});
  const auto found = this->find(table, keys);
  for (std::uint32_t i = 0; i < 700; ++i) ASSERT_EQ(found[i], 700 + i);
}

TYPED_TEST(HashTableOf, ARowIsFoundWhenItWasBornInTime) {
  auto table = this->make(100);
  const std::vector<TypeParam> keys{7, 8, 9};
  auto rows = this->insert(table, keys);
  std::vector<std::uint32_t> births(3);
  for (std::uint32_t i = 0; i < 3; ++i) births[rows[i]] = i + 1;
  std::vector<std::uint32_t> found(3);
  const auto look = [&](std::uint32_t birth, std::size_t limit) {
    table.get_mark(this->context_, this->ref(keys), {}, {},
                   {.rows = limit, .births = this->ref(births, 0), .birth = birth},
                   this->ref(found, 0));
    return found;
  };
  EXPECT_EQ(look(2, 3), (std::vector<std::uint32_t>{rows[0], rows[1], kNoRow}));
  EXPECT_EQ(look(0, 3), std::vector<std::uint32_t>(3, kNoRow));
  EXPECT_EQ(look(9, 3), rows);
}

TYPED_TEST(HashTableOf, InsertAndSetNumberRowsInOrder) {
  auto table = this->make(10);
  const std::vector<TypeParam> a{4, 9}, b{1}, c{9, 2, 4};
  table.insert(this->context_, this->ref(a), {});
  table.insert(this->context_, this->ref(b), {});
  EXPECT_EQ(this->find(table, {1, 4, 9}), (std::vector<std::uint32_t>{2, 0, 1}));
  table.set(this->context_, this->ref(c), {});
  EXPECT_EQ(this->find(table, {1, 2, 4, 9}), (std::vector<std::uint32_t>{kNoRow, 1, 2, 0}));
  EXPECT_THROW(table.insert(this->context_, this->ref(this->range(20, 8)), {}), OutOfMemory);
}

TYPED_TEST(HashTableOf, WithSlotsAKeyInTwoSlotsIsTwoRows) {
  auto table = this->make(1 << 16, true);
  // Every key of 0 .. 99 in 40 slots, bucket = sample * 40 + slot.
  std::vector<TypeParam> keys;
  std::vector<std::uint32_t> buckets, rows(100 * 40);
  for (std::uint32_t sample = 0; sample < 100; ++sample) {
    for (std::uint32_t slot = 0; slot < 40; ++slot) {
      keys.push_back(static_cast<TypeParam>(sample));
      buckets.push_back(sample * 40 + slot);
    }
  }
  const SlotOfBucket slot_of{40, 3, 1};
  table.get_insert(this->context_, this->ref(keys), this->ref(buckets, 0), slot_of,
                   this->ref(rows, 0));
  EXPECT_EQ(table.size(), 4000u);
  EXPECT_EQ(std::set<std::uint32_t>(rows.begin(), rows.end()).size(), 4000u);
  std::vector<TypeParam> dumped;
  std::vector<std::uint32_t> slots;
  table.dump(this->context_, 4000, dumped, slots);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(dumped[rows[i]], keys[i]);
    ASSERT_EQ(slots[rows[i]], 1 + buckets[i] % 40 * 3);
  }
}

TEST(HashTableKeys, NegativeKeysAreOrdinary) {
  auto resources = ResourceManager::create({{0}}, 1);
  GPUResource& gpu = resources->get_local_gpu(0);
  HashTable table(gpu.memory_resource(), "negative", TensorScalarType::Int64, 10, false);
  std::vector<std::int64_t> keys{-1, std::numeric_limits<std::int64_t>::min(), -1, 0};
  std::vector<std::uint32_t> rows(4);
  const auto result = table.get_insert(gpu.plan_context(), make_ref(keys.data(), {4}, gpu.device()),
                                       {}, {}, make_ref(rows.data(), {4}, gpu.device()));
  EXPECT_EQ(result.first_reserved, -1);
  EXPECT_EQ(result.rows, 3u);
  EXPECT_EQ(rows[0], rows[2]);
}

}  // namespace
}  // namespace hugectr::test
