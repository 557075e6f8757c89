// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/lookup/lookup_group.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <thread>

#include "core/cpp/device/work_counts.hpp"
#include "tests/cpp/embedding/table_run.hpp"

/// Several tables in one group against each table in a group of its own.
namespace hugectr::test {
namespace {

constexpr std::size_t kSamples = 24;
constexpr auto kDistributed = EmbeddingType::DistributedSlotSparseEmbeddingHash;
constexpr auto kLocalized = EmbeddingType::LocalizedSlotSparseEmbeddingHash;

SparseEmbeddingHashParams table(std::size_t id, EmbeddingType type, std::size_t slots,
                                std::size_t d, Combiner combiner, ExchangeType exchange) {
  SparseEmbeddingHashParams params;
  params.name = concat("table", id);
  params.table_id = id;
  params.type = type;
  params.combiner = combiner;
  params.exchange = exchange;
  params.slot_num = slots;
  params.embedding_vec_size = d;
  params.i64_keys = true;
  params.opt_params.optimizer = Optimizer::Adam;
  params.opt_params.update_type = Update::Local;
  params.batch_size = params.batch_size_eval = kSamples;
  return params;
}

/// Unlike in everything that tables of a group may differ in.
std::vector<SparseEmbeddingHashParams> unlike_tables() {
  return {table(0, kDistributed, 3, 4, Combiner::Sum, ExchangeType::Auto),
          table(1, kLocalized, 2, 16, Combiner::Mean, ExchangeType::Pooled),
          table(2, kLocalized, 5, 7, Combiner::Sum, ExchangeType::Unique),
          table(3, kDistributed, 1, 32, Combiner::Mean, ExchangeType::Unique)};
}

/// Tables in the groups given by their numbers, all on the same virtual devices.
class Tables {
 public:
  Tables(const std::vector<SparseEmbeddingHashParams>& params,
         const std::vector<std::vector<std::size_t>>& groups, std::size_t devices)
      : params_(params) {
    std::vector<int> ids(devices);
    std::iota(ids.begin(), ids.end(), 0);
    resources_ = ResourceManager::create({ids}, 11);
    for (const auto& members : groups) {
      std::vector<SparseEmbeddingHashParams> chosen;
      for (const std::size_t i : members) chosen.push_back(params[i]);
      groups_.push_back({std::make_unique<LookupGroup>(chosen, resources_), members});
    }
    vectors_.resize(params.size());
  }

  void plan(const std::vector<HostBatch>& batches, PlanSlot slot) {
    resources_->synchronize();
    auto& kept = batches_[static_cast<std::size_t>(slot)];
    kept = batches;
    resources_->for_each_device_planning([&](std::size_t id) {
      const DeviceId device = resources_->get_local_gpu(id).device();
      for (auto& [group, members] : groups_) {
        std::vector<SparseTensor> csr;
        for (const std::size_t i : members) {
          HostBatch& batch = kept[i];
          csr.push_back({make_ref(batch.keys.data(), {batch.keys.size()}, device),
                         make_ref(batch.row_offsets.data(), {batch.row_offsets.size()}, device),
                         batch.keys.size()});
        }
        group->plan(id, csr, slot, slot != PlanSlot::Eval);
      }
    });
  }
  /// Outputs of all tables.
  std::vector<std::vector<float>> forward(PlanSlot slot) {
    for (std::size_t i = 0; i < params_.size(); ++i) {
      vectors_[i].assign(kSamples * params_[i].slot_num * params_[i].embedding_vec_size, -7.0f);
    }
    each([&](std::size_t id, LookupGroup& group, const std::vector<TensorRef>& refs) {
      group.forward(id, slot, refs);
    });
    return vectors_;
  }
  /// With `between`, gradients are sent first, and it is called before tables are updated by them.
  void update(PlanSlot slot, std::uint64_t seed, std::int64_t step,
              const std::function<void()>& between = {}) {
    for (std::size_t i = 0; i < params_.size(); ++i) {
      vectors_[i] = random_gradient(kSamples * params_[i].slot_num * params_[i].embedding_vec_size,
                                    seed + 100 * i);
    }
    if (between) {
      each([&](std::size_t id, LookupGroup& group, const std::vector<TensorRef>& refs) {
        group.send_gradients(id, slot, refs, {}, false, {});
      });
      between();
    }
    float lr = 0.05f;
    each([&](std::size_t id, LookupGroup& group, const std::vector<TensorRef>& refs) {
      const DeviceId device = resources_->get_local_gpu(id).device();
      group.backward_and_update(id, slot, refs,
                                {make_ref(&lr, {1}, device), make_ref(&step, {1}, device), {}});
    });
  }
  void drop(PlanSlot slot) {
    for (auto& [group, members] : groups_) group->drop_plan(slot);
  }
  ShardedTable& operator[](std::size_t i) {
    for (auto& [group, members] : groups_) {
      for (std::size_t t = 0; t < members.size(); ++t) {
        if (members[t] == i) return group->table(t);
      }
    }
    throw Error("no such table");
  }

 private:
  struct Group {
    std::unique_ptr<LookupGroup> group;
    std::vector<std::size_t> members;
  };
  using Call = std::function<void(std::size_t, LookupGroup&, const std::vector<TensorRef>&)>;

  void each(const Call& call) {
    const std::size_t own = kSamples / resources_->get_local_gpu_count();
    resources_->for_each_device([&](std::size_t id) {
      for (auto& [group, members] : groups_) {
        std::vector<TensorRef> refs;
        for (const std::size_t i : members) {
          const std::size_t slots = params_[i].slot_num, d = params_[i].embedding_vec_size;
          refs.push_back(make_ref(vectors_[i].data() + id * own * slots * d, {own, slots, d},
                                  resources_->get_local_gpu(id).device()));
        }
        call(id, *group, refs);
      }
    });
    resources_->synchronize();
  }

  std::vector<SparseEmbeddingHashParams> params_;
  std::shared_ptr<ResourceManager> resources_;
  std::vector<Group> groups_;
  std::array<std::vector<HostBatch>, 3> batches_;
  std::vector<std::vector<float>> vectors_;
};

/// Few distinct keys, so that rows are worth sending, or many; at most so many in a bucket.
std::vector<HostBatch> batches_of(const std::vector<SparseEmbeddingHashParams>& params,
                                  std::uint64_t seed, std::size_t most = 3) {
  std::vector<HostBatch> batches;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const bool few = (seed + i) % 2;
    batches.push_back(random_batch(kSamples, params[i].slot_num, few ? 3 : most, -5,
                                   few ? 3 : static_cast<std::int64_t>(20 * most), 10 * seed + i));
  }
  return batches;
}

void expect_same(const BufferBag& found, const BufferBag& wanted) {
  EXPECT_EQ(found.keys, wanted.keys);
  EXPECT_EQ(found.slot_ids, wanted.slot_ids);
  EXPECT_EQ(found.vectors, wanted.vectors);
  EXPECT_EQ(found.states, wanted.states);
}

class LookupGroupOf : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Devices, LookupGroupOf, ::testing::Values(1, 2, 3, 4, 8));

TEST_P(LookupGroupOf, UnlikeTablesGiveTheSameAsEachAlone) {
  auto params = unlike_tables();
  // Without a budget, address space for all of memory, many times: more than ThreadSanitizer has.
  for (auto& one : params) one.max_vocabulary_size_per_gpu = 4000;
  Tables together(params, {{2, 0, 3, 1}}, GetParam()),
      alone(params, {{0}, {1}, {2}, {3}}, GetParam());
  constexpr std::size_t kMany = 30;  // sums of a bucket are then less than its rows
  for (std::int64_t step = 1; step <= 5; ++step) {
    const auto seed = static_cast<std::uint64_t>(step);
    const PlanSlot slot = step % 2 ? PlanSlot::Train0 : PlanSlot::Train1;
    const PlanSlot next = step % 2 ? PlanSlot::Train1 : PlanSlot::Train0;
    std::vector<std::vector<float>> outputs;
    for (Tables* tables : {&together, &alone}) {
      tables->plan(batches_of(params, seed, kMany), slot);
      tables->plan(batches_of(params, seed + 40), next);  // one ahead, and given up
      const auto found = tables->forward(slot);
      tables->update(slot, seed, step);
      tables->drop(next);
      tables->plan(batches_of(params, seed + 1), PlanSlot::Eval);
      auto evaluated = tables->forward(PlanSlot::Eval);
      if (tables == &together) {
        outputs = found;
        outputs.insert(outputs.end(), evaluated.begin(), evaluated.end());
        continue;
      }
      for (std::size_t i = 0; i < params.size(); ++i) {
        EXPECT_EQ(outputs[i], found[i]) << "step " << step << ", table " << i;
        EXPECT_EQ(outputs[params.size() + i], evaluated[i]) << "step " << step << ", table " << i;
      }
    }
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    expect_same(together[i].dump(true), alone[i].dump(true));
    EXPECT_EQ(together[i].stats().unique_plans, alone[i].stats().unique_plans);
  }
  if (GetParam() > 1) {
    EXPECT_GT(together[0].stats().unique_plans, 0u);
    EXPECT_LT(together[0].stats().unique_plans, 10u) << "one batch of both kinds at least";
    EXPECT_EQ(together[1].stats().unique_plans, 0u);
  }
}

TEST_P(LookupGroupOf, AFullTableLeavesAllTablesAsTheyWere) {
  auto params = unlike_tables();
  params[3].max_vocabulary_size_per_gpu = 30;
  Tables tables(params, {{0, 1, 2, 3}}, GetParam());
  tables.plan(batches_of(params, 1), PlanSlot::Train0);
  tables.forward(PlanSlot::Train0);
  tables.update(PlanSlot::Train0, 1, 1);
  std::vector<BufferBag> before;
  for (std::size_t i = 0; i < params.size(); ++i) before.push_back(tables[i].dump(true));
  auto many = batches_of(params, 5);
  many[3] = random_batch(kSamples, 1, 40, 1000, 100'000, 9);
  try {
    tables.plan(many, PlanSlot::Train1);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("table3"), std::string::npos) << error.what();
  }
  tables.drop(PlanSlot::Train1);  // devices that had room
  for (std::size_t i = 0; i < params.size(); ++i) expect_same(tables[i].dump(true), before[i]);
  tables.plan(batches_of(params, 2), PlanSlot::Train1);  // and training goes on
  tables.forward(PlanSlot::Train1);
  tables.update(PlanSlot::Train1, 2, 2);
  EXPECT_GT(tables[0].stats().rows, before[0].size());
}

/// The next plan is made, and fails, while a step is between its two halves.
TEST_P(LookupGroupOf, APlanThatIsDroppedLeavesTheStepAlone) {
  auto params = unlike_tables();
  for (auto& one : params) one.max_vocabulary_size_per_gpu = 4000;
  Tables tables(params, {{0, 1, 2, 3}}, GetParam()), wanted(params, {{0, 1, 2, 3}}, GetParam());
  std::uint64_t collectives[2] = {};
  for (Tables* one : {&tables, &wanted}) {
    one->plan(batches_of(params, 1), PlanSlot::Train0);
    one->plan(batches_of(params, 2), PlanSlot::Train1);
    one->forward(PlanSlot::Train0);
    const std::uint64_t before = work_counts().collectives;
    one->update(PlanSlot::Train0, 1, 1, [&] {
      if (one == &tables) one->drop(PlanSlot::Train1);
    });
    collectives[one == &wanted] = work_counts().collectives - before;
  }
  EXPECT_EQ(collectives[0], collectives[1]) << "gradients are sent once";
  wanted.drop(PlanSlot::Train1);
  for (std::size_t i = 0; i < params.size(); ++i) {
    expect_same(tables[i].dump(true), wanted[i].dump(true));
  }
}

/// The same on threads of their own, as a session has them.
TEST_P(LookupGroupOf, APlanIsDroppedWhileAStepIsUnderWay) {
  auto params = unlike_tables();
  for (auto& one : params) one.max_vocabulary_size_per_gpu = 4000;
  Tables tables(params, {{0, 1, 2, 3}}, GetParam());
  for (std::int64_t step = 1; step <= 20; ++step) {
    const auto seed = static_cast<std::uint64_t>(step);
    tables.plan(batches_of(params, seed), PlanSlot::Train0);
    tables.plan(batches_of(params, seed + 1), PlanSlot::Train1);
    tables.forward(PlanSlot::Train0);
    std::jthread dropping;
    tables.update(PlanSlot::Train0, seed, step,
                  [&] { dropping = std::jthread([&] { tables.drop(PlanSlot::Train1); }); });
  }
  EXPECT_GT(tables[0].stats().rows, 0u);
}

/// Identity belongs to the table: what a row is, and begins with, does not depend on where it is.
TEST_P(LookupGroupOf, PlacementDoesNotChangeWhatATableIs) {
  std::vector<SparseEmbeddingHashParams> params{
      table(0, kLocalized, 5, 8, Combiner::Mean, ExchangeType::Pooled),
      table(1, kDistributed, 1, 8, Combiner::Sum, ExchangeType::Pooled)};
  params[0].slot_size_array = {90, 100, 400, 70, 80};
  auto moved = params;
  moved[0].placement = PlacementKind::ByKey;
  moved[1].placement = PlacementKind::BySlot;
  Tables usual(params, {{0, 1}}, GetParam()), other(moved, {{0, 1}}, GetParam());
  EXPECT_STREQ(usual[0].placement().name(), "by_slot");
  EXPECT_STREQ(other[0].placement().name(), "by_key");
  for (std::int64_t step = 1; step <= 3; ++step) {
    const auto batches = batches_of(params, static_cast<std::uint64_t>(2 * step));
    std::vector<std::vector<float>> wanted;
    for (Tables* tables : {&usual, &other}) {
      tables->plan(batches, PlanSlot::Train0);
      const auto found = tables->forward(PlanSlot::Train0);
      tables->update(PlanSlot::Train0, 3, step);
      if (tables == &usual) wanted = found;
      for (std::size_t i = 0; i < params.size(); ++i) {
        EXPECT_LE(relative_distance(found[i], wanted[i]), 1e-5);
      }
    }
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    const BufferBag found = other[i].dump(false), wanted = usual[i].dump(false);
    EXPECT_EQ(found.keys, wanted.keys);
    EXPECT_EQ(found.slot_ids, wanted.slot_ids);
    EXPECT_LE(relative_distance(found.vectors, wanted.vectors), 1e-5);
  }
}

TEST(LookupGroupSettings, AKeyOfManySlotsIsNotPlacedBySlot) {
  auto params = unlike_tables();
  params[0].placement = PlacementKind::BySlot;
  EXPECT_THROW(Tables(params, {{0}}, 2), InvalidArgument);
  EXPECT_THROW(Tables(params, {{}}, 2), InvalidArgument) << "no table";
}

}  // namespace
}  // namespace hugectr::test
