// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/hash_table.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/hash_index.hpp"
#include "tests/cuda/gpu.hpp"

/// The hash table under the many threads of a GPU; the same rules as in
/// tests/cpp/embedding/hash_table_test.cpp.
namespace hugectr {
namespace {

using Numbers = std::vector<std::uint32_t>;

template <class Key>
class CudaHashTable : public GpuTest<1> {
 protected:
  void SetUp() override {
    GpuTest<1>::SetUp();
    if (this->IsSkipped()) return;
    stream_ = this->backend().create_stream(this->device, "test");
    context_ = {.stream = stream_.get(), .pool = &pool_, .device = this->device};
  }
  HashTable make(std::size_t max_rows, bool slots = false) {
    return HashTable(this->backend().memory_resource(this->device), "test table",
                     ScalarTypeOf<Key>::value, max_rows, slots,
                     this->backend().staging_resource(this->device));
  }
  Numbers insert(HashTable& table, const std::vector<Key>& keys, const Numbers& buckets = {},
                 SlotOfBucket slot_of = {}) {
    return call(keys, buckets, [&](const TensorRef& k, const TensorRef& b, const TensorRef& r) {
      result_ = table.get_insert(context_, k, b, slot_of, r);
    });
  }
  Numbers find(HashTable& table, const std::vector<Key>& keys, std::size_t limit = kNoRow,
               const Numbers& buckets = {}, SlotOfBucket slot_of = {}) {
    return call(keys, buckets, [&](const TensorRef& k, const TensorRef& b, const TensorRef& r) {
      result_ = table.get_mark(context_, k, b, slot_of, {.rows = limit}, r);
    });
  }
  /// Random keys of a range, its ends among them.
  static std::vector<Key> random_keys(std::size_t n, std::int64_t low, std::int64_t range,
                                      std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Key> keys(n);
    for (auto& key : keys) {
      key = static_cast<Key>(
          low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(range)));
    }
    return keys;
  }
  static std::vector<Key> range(std::int64_t first, std::size_t count) {
    std::vector<Key> keys(count);
    std::iota(keys.begin(), keys.end(), static_cast<Key>(first));
    return keys;
  }

  std::unique_ptr<Stream> stream_;
  ThreadPool pool_{1};
  OpContext context_;
  HashTable::Result result_;

 private:
  template <class Body>
  Numbers call(const std::vector<Key>& keys, const Numbers& buckets, const Body& body) {
    const std::size_t n = keys.size();
    DeviceArray<Key> k(this->device, n);
    DeviceArray<std::uint32_t> b(this->device, n), r(this->device, n);
    k.set(*stream_, keys);
    if (!buckets.empty()) b.set(*stream_, buckets);
    body(k.ref(), buckets.empty() ? TensorRef{} : b.ref(), r.ref());
    return r.get(*stream_);
  }
};

using KeyTypes = ::testing::Types<std::uint32_t, std::int64_t>;
TYPED_TEST_SUITE(CudaHashTable, KeyTypes);

TYPED_TEST(CudaHashTable, OverlappingInsertsGiveEachKeyOneRow) {
  auto table = this->make(1 << 22);
  std::map<TypeParam, std::uint32_t> row_of;
  // From "every key a few times" to "three keys, a million times": many threads meet at one key.
  for (const std::int64_t distinct : {3, 700, 60'000, 900'000}) {
    const auto keys = this->random_keys(1'000'000, 5, distinct, distinct);
    const auto rows = this->insert(table, keys);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto [place, is_first] = row_of.emplace(keys[i], rows[i]);
      ASSERT_EQ(place->second, rows[i]) << "key " << keys[i] << " has two rows";
    }
    ASSERT_EQ(table.size(), row_of.size());
  }
  std::vector<bool> seen(row_of.size(), false);
  for (const auto& [key, row] : row_of) {
    ASSERT_LT(row, seen.size()) << "there are gaps";
    ASSERT_FALSE(seen[row]);
    seen[row] = true;
  }
  std::vector<TypeParam> keys;
  Numbers slots;
  table.dump(this->context_, table.size(), keys, slots);
  for (std::size_t row = 0; row < keys.size(); ++row) ASSERT_EQ(row_of.at(keys[row]), row);
}

TYPED_TEST(CudaHashTable, GrowsUnderLoadAndKeepsItsRows) {
  auto table = this->make(3'000'000);
  const auto first = this->range(0, 900);
  const auto first_rows = this->insert(table, first);
  std::map<std::size_t, Numbers> rows;
  for (std::size_t i = 0; i < 20; ++i) {
    rows[i] = this->insert(table, this->range(100'000 * static_cast<std::int64_t>(i), 100'000));
  }
  EXPECT_EQ(table.size(), 2'000'000u);
  EXPECT_GE(table.capacity() * 3, table.size() * 4);
  EXPECT_EQ(this->find(table, first), first_rows);
  for (std::size_t i = 0; i < 20; ++i) {
    ASSERT_EQ(this->find(table, this->range(100'000 * static_cast<std::int64_t>(i), 100'000)),
              rows[i]);
  }
  const auto missing = this->find(table, this->range(2'000'000, 50'000));
  EXPECT_EQ(missing, Numbers(50'000, kNoRow));
}

TYPED_TEST(CudaHashTable, RowsBeyondTheLimitAreNotSeen) {
  auto table = this->make(100'000);
  const auto keys = this->range(0, 70'000);
  const auto rows = this->insert(table, keys);
  const auto seen = this->find(table, keys, 30'000);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(seen[i], rows[i] < 30'000 ? rows[i] : kNoRow);
  }
}

TYPED_TEST(CudaHashTable, TheLeastPlaceOfTheReservedKeyIsReported) {
  auto table = this->make(100'000);
  auto keys = this->range(0, 50'000);
  for (const std::size_t i : {49'999, 31'007, 777}) keys[i] = kEmptyKey<TypeParam>;
  const auto rows = this->insert(table, keys);
  EXPECT_EQ(this->result_.first_reserved, 777);
  EXPECT_EQ(table.size(), 49'997u);
  EXPECT_EQ(rows[31'007], kNoRow);
  this->find(table, keys);
  EXPECT_EQ(this->result_.first_reserved, 777);
  this->find(table, this->range(0, 700));
  EXPECT_EQ(this->result_.first_reserved, -1);
}

TYPED_TEST(CudaHashTable, AFullTableCountsOnAndCanGoBack) {
  auto table = this->make(500'000);
  const auto known = this->range(0, 400'000);
  const auto known_rows = this->insert(table, known);
  const auto rows = this->insert(table, this->range(0, 900'000));
  EXPECT_EQ(this->result_.rows, 900'000u) << "what would have been needed";
  EXPECT_EQ(table.size(), 500'000u);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), kNoRow), 400'000);
  table.take_back(this->context_, {.rows = 400'000});
  EXPECT_EQ(this->find(table, known), known_rows);
  EXPECT_EQ(this->find(table, this->range(400'000, 5000)), Numbers(5000, kNoRow));
  EXPECT_EQ(this->insert(table, {static_cast<TypeParam>(899'999)}), Numbers{400'000});
  table.clear(this->context_);
  EXPECT_EQ(this->insert(table, {static_cast<TypeParam>(5)}), Numbers{0});
}

/// Rows come, go and come back while many threads ask for the same ones; a tenth of the table at a
/// time, at a load at which many places stay dead.
TYPED_TEST(CudaHashTable, RowsComeAndGoAndComeBack) {
  for (const bool with_slots : {false, true}) {
    auto table = this->make(1 << 20, with_slots);
    const SlotOfBucket slot_of = with_slots ? SlotOfBucket{5, 3, 1} : SlotOfBucket{};
    std::map<std::pair<std::uint32_t, TypeParam>, std::uint32_t> row_of;
    std::mt19937_64 random(9);
    for (std::int64_t round = 0; round < 12; ++round) {
      const auto keys = this->random_keys(150'000, 20'000 * (round % 4), 40'000, 70 + round);
      Numbers buckets(with_slots ? keys.size() : 0);
      std::iota(buckets.begin(), buckets.end(), 0u);
      const auto rows = this->insert(table, keys, buckets, slot_of);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const std::pair identity(with_slots ? slot_of(buckets[i]) : 0u, keys[i]);
        const auto [there, is_new] = row_of.emplace(identity, rows[i]);
        ASSERT_EQ(there->second, rows[i]) << "key " << keys[i] << " in round " << round;
      }
      ASSERT_EQ(table.live(), row_of.size());
      std::set<std::uint32_t> distinct;
      for (const auto& [identity, row] : row_of) distinct.insert(row);
      ASSERT_EQ(distinct.size(), row_of.size()) << "two keys have one row";
      Numbers gone;
      for (auto it = row_of.begin(); it != row_of.end();) {
        if (random() % 3 > 0) {
          ++it;
          continue;
        }
        gone.push_back(it->second);
        it = row_of.erase(it);
      }
      DeviceArray<std::uint32_t> rows_to_go(this->device, gone.size());
      rows_to_go.set(*this->stream_, gone);
      table.erase(this->context_, rows_to_go.ref());
      const auto found = this->find(table, keys, kNoRow, buckets, slot_of);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const auto there = row_of.find({with_slots ? slot_of(buckets[i]) : 0u, keys[i]});
        ASSERT_EQ(found[i], there == row_of.end() ? kNoRow : there->second) << "round " << round;
      }
    }
  }
}

TYPED_TEST(CudaHashTable, WithSlotsAKeyInTwoSlotsIsTwoRows) {
  auto table = this->make(1 << 20, true);
  // Few keys, many slots, everything several times: threads find a key whose slot is not known yet.
  constexpr std::uint32_t kSlots = 60;
  const SlotOfBucket slot_of{kSlots, 3, 1};
  const auto keys = this->random_keys(600'000, 0, 500, 8);
  Numbers buckets(keys.size());
  std::iota(buckets.begin(), buckets.end(), 0u);
  const auto rows = this->insert(table, keys, buckets, slot_of);
  std::map<std::pair<std::uint32_t, TypeParam>, std::uint32_t> row_of;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::pair identity(slot_of(buckets[i]), keys[i]);
    ASSERT_EQ(row_of.emplace(identity, rows[i]).first->second, rows[i]);
  }
  EXPECT_EQ(table.size(), row_of.size());
  EXPECT_EQ(row_of.size(), 500u * kSlots);
  EXPECT_EQ(this->find(table, keys, kNoRow, buckets, slot_of), rows);
  std::vector<TypeParam> dumped;
  Numbers slots;
  table.dump(this->context_, table.size(), dumped, slots);
  for (const auto& [identity, row] : row_of) {
    ASSERT_EQ(slots[row], identity.first);
    ASSERT_EQ(dumped[row], identity.second);
  }
  table.take_back(this->context_, {.rows = table.size()});  // rebuilds the index from the rows
  EXPECT_EQ(this->find(table, keys, kNoRow, buckets, slot_of), rows);
}

TYPED_TEST(CudaHashTable, AFullIndexLosesKeysAndTheProcessGoesOn) {
  DeviceArray<std::uint64_t> index(this->device, 2 * 1024);
  DeviceArray<TypeParam> keys(this->device, 5000), row_keys(this->device, 5000);
  DeviceArray<std::uint32_t> rows(this->device, 5000);
  DeviceArray<std::int64_t> counter(this->device, 1), report(this->device, kReportSize);
  TensorRef places = index.ref();
  places.shape = {1024, 2};
  places.row_stride = 2;
  run(this->context_, HashClear{.index = places});
  keys.set(*this->stream_, this->range(0, 5000));
  counter.set(*this->stream_, {0});
  run(this->context_, HashGetInsert{.keys = keys.ref(),
                                    .index = places,
                                    .counter = counter.ref(),
                                    .row_keys = row_keys.ref(),
                                    .rows = rows.ref(),
                                    .report = report.ref()});
  EXPECT_EQ(report.get(*this->stream_)[kReportedLost], 5000 - 1024);
  EXPECT_EQ(counter.get(*this->stream_)[0], 1024);
  const auto found = rows.get(*this->stream_);
  EXPECT_EQ(std::count(found.begin(), found.end(), kNoRow), 5000 - 1024);
  EXPECT_EQ(std::set<std::uint32_t>(found.begin(), found.end()).size(), 1025u);
  auto table = this->make(10);
  EXPECT_EQ(this->insert(table, {static_cast<TypeParam>(5)}), Numbers{0});
}

TEST(CudaHashTableKeys, NegativeKeysAreOrdinary) {
  if (!DeviceBackend::why_not(DeviceType::Cuda).empty()) GTEST_SKIP();
  const DeviceId device{DeviceType::Cuda, 0};
  DeviceBackend& backend = DeviceBackend::get(DeviceType::Cuda);
  const auto stream = backend.create_stream(device, "test");
  ThreadPool pool(1);
  HashTable table(backend.memory_resource(device), "negative", TensorScalarType::Int64, 10, false);
  DeviceArray<std::int64_t> keys(device, 5);
  DeviceArray<std::uint32_t> rows(device, 5);
  keys.set(*stream, {-1, std::numeric_limits<std::int64_t>::min(), -1, 0,
                     std::numeric_limits<std::int64_t>::max() - 1});
  const auto result = table.get_insert({.stream = stream.get(), .pool = &pool, .device = device},
                                       keys.ref(), {}, {}, rows.ref());
  EXPECT_EQ(result.first_reserved, -1);
  EXPECT_EQ(result.rows, 4u);
  const auto found = rows.get(*stream);
  EXPECT_EQ(found[0], found[2]);
  EXPECT_EQ(std::set<std::uint32_t>(found.begin(), found.end()).size(), 4u);
}

}  // namespace
}  // namespace hugectr
