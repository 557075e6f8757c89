// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "core/cpp/base/half.hpp"
#include "tests/cpp/embedding/table_run.hpp"

/// Tables whose vectors and gradients are 16-bit numbers, on one and several devices.
namespace hugectr::test {
namespace {

constexpr std::size_t kSamples = 24, kSlots = 5, kDim = 6, kPad = 3;

std::uint16_t round_to(TensorScalarType type, float value) {
  return type == TensorScalarType::Float16 ? to_float16(value).bits : to_bfloat16(value).bits;
}
float value_of(TensorScalarType type, std::uint16_t bits) {
  return type == TensorScalarType::Float16 ? to_float(Float16{bits}) : to_float(BFloat16{bits});
}

struct Setting {
  EmbeddingType table;
  TensorScalarType type;
  std::size_t devices;
  ExchangeType exchange = ExchangeType::Pooled;
};

double tolerance(TensorScalarType type) { return type == TensorScalarType::Float16 ? 2e-3 : 1e-2; }

/// Of distinct rows that travel a single one.
HostBatch batch_of(const Setting& setting) {
  const bool few = setting.exchange == ExchangeType::Unique;
  return random_batch(kSamples, kSlots, 4, -20, few ? 1 : 60, 5);
}

SparseEmbeddingHashParams params_of(const Setting& setting) {
  SparseEmbeddingHashParams p;
  p.name = "table";
  p.type = setting.table;
  p.combiner = Combiner::Mean;
  p.slot_num = kSlots;
  p.embedding_vec_size = kDim;
  p.i64_keys = true;
  p.opt_params.optimizer = Optimizer::SGD;
  p.batch_size = p.batch_size_eval = kSamples;
  p.output_type = setting.type;
  p.exchange = setting.exchange;
  return p;
}

/// Device `id`'s rows of (samples, slots, d) numbers whose samples lie kPad further apart.
TensorRef part(TableRun& run, std::size_t id, std::vector<std::uint16_t>& wide,
               TensorScalarType type) {
  const std::size_t own = kSamples / run.resources().get_local_gpu_count();
  TensorRef ref = make_ref(reinterpret_cast<BFloat16*>(wide.data()), {own, kSlots, kDim},
                           run.resources().get_local_gpu(id).device());
  ref.dtype = type;
  ref.row_stride = kSlots * kDim + kPad;
  ref.data = wide.data() + id * own * ref.row_stride;
  return ref;
}

class OutputType : public ::testing::TestWithParam<Setting> {};

TEST_P(OutputType, VectorsAndGradientsIn16BitsAreTheRoundedOnes) {
  const Setting setting = GetParam();
  const TensorScalarType type = setting.type;
  const HostBatch batch = batch_of(setting);
  SparseEmbeddingHashParams in_float32 = params_of(setting);
  in_float32.output_type = TensorScalarType::Float32;
  TableRun run(params_of(setting), setting.devices), reference(in_float32, setting.devices);
  for (TableRun* r : {&run, &reference}) r->plan(batch, PlanSlot::Train0);

  constexpr std::size_t kStride = kSlots * kDim + kPad;
  const std::uint16_t untouched = round_to(type, 7.0f);
  std::vector<std::uint16_t> wide(kSamples * kStride, untouched);
  run.resources().for_each_device([&](std::size_t id) {
    const TensorRef output = part(run, id, wide, type);
    run.group().forward(id, PlanSlot::Train0, {&output, 1});
  });
  run.resources().synchronize();
  const std::vector<float> expected = reference.forward(PlanSlot::Train0);
  std::vector<float> found;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (i % kStride < kSlots * kDim) {
      found.push_back(value_of(type, wide[i]));
    } else {
      ASSERT_EQ(wide[i], untouched) << "forward wrote beyond its columns";
    }
  }
  // Rows that travel are rounded before they are pooled. Sums of a Distributed table are rounded on
  // every device, all others once.
  const bool unique = setting.exchange == ExchangeType::Unique;
  EXPECT_EQ(run.table().stats().unique_plans, unique ? 1u : 0u);
  const bool once = setting.devices == 1 ||
                    (!unique && setting.table == EmbeddingType::LocalizedSlotSparseEmbeddingHash);
  if (once) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i], value_of(type, round_to(type, expected[i])));
    }
  }
  EXPECT_LE(relative_distance(found, expected), tolerance(type));

  std::vector<float> gradient = random_gradient(kSamples * kSlots * kDim, 9);
  for (float& g : gradient) g = value_of(type, round_to(type, g));
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    wide[i / (kSlots * kDim) * kStride + i % (kSlots * kDim)] = round_to(type, gradient[i]);
  }
  float lr = 0.1f;
  std::int64_t step = 1;
  run.resources().for_each_device([&](std::size_t id) {
    const DeviceId device = run.resources().get_local_gpu(id).device();
    const TensorRef part_of_it = part(run, id, wide, type);
    run.group().backward_and_update(
        id, PlanSlot::Train0, {&part_of_it, 1},
        {make_ref(&lr, {1}, device), make_ref(&step, {1}, device), TensorRef{}});
  });
  run.resources().synchronize();
  reference.update(PlanSlot::Train0, gradient, lr, step);
  const BufferBag rows = run.table().dump(false), wanted = reference.table().dump(false);
  ASSERT_EQ(rows.keys, wanted.keys);
  if (unique) {  // sums of bfloat16 gradients are rounded, those of float16 travel as float32
    const bool exact = type == TensorScalarType::Float16;
    EXPECT_LE(relative_distance(rows.vectors, wanted.vectors), exact ? 1e-6 : tolerance(type));
  } else {
    ASSERT_EQ(rows.vectors, wanted.vectors);  // gradients only travel: nothing is rounded again
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OutputType, ::testing::ValuesIn([] {
      std::vector<Setting> settings;
      for (const auto table : {EmbeddingType::DistributedSlotSparseEmbeddingHash,
                               EmbeddingType::LocalizedSlotSparseEmbeddingHash}) {
        for (const auto type : {TensorScalarType::Float16, TensorScalarType::BFloat16}) {
          for (const std::size_t devices : {1, 2, 3, 8}) settings.push_back({table, type, devices});
          for (const std::size_t devices : {2, 3, 8}) {
            settings.push_back({table, type, devices, ExchangeType::Unique});
          }
        }
      }
      return settings;
    }()),
    [](const ::testing::TestParamInfo<Setting>& info) {
      const bool localized = info.param.table == EmbeddingType::LocalizedSlotSparseEmbeddingHash;
      return concat(localized ? "Localized" : "Distributed",
                    info.param.type == TensorScalarType::Float16 ? "Float16" : "BFloat16", "On",
                    info.param.devices,
                    info.param.exchange == ExchangeType::Unique ? "Unique" : "");
    });

TEST(OutputTypeOfATable, IsCheckedAgainstItsVectors) {
  const Setting setting{EmbeddingType::DistributedSlotSparseEmbeddingHash,
                        TensorScalarType::BFloat16, 2};
  TableRun run(params_of(setting), 2);
  run.plan(random_batch(kSamples, kSlots, 4, -20, 60, 5), PlanSlot::Train0);
  EXPECT_THROW(run.forward(PlanSlot::Train0), InvalidArgument);  // float32: buffers are too small
  SparseEmbeddingHashParams p = params_of(setting);
  p.output_type = TensorScalarType::Int64;
  EXPECT_THROW(TableRun(p, 1), InvalidArgument);
}

}  // namespace
}  // namespace hugectr::test
