// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/embedding_lookup.hpp"

#include <algorithm>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/loops/vec_size_dispatch.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kLookupGrain = 1024;  // buckets of a piece
constexpr std::uint32_t kLookupAhead = 48;  // rows fetched before they are needed

template <std::size_t D, class Row>
void look_up(const EmbeddingLookup& op, std::size_t begin, std::size_t end) {
  const std::size_t slots = op.out.shape[1];
  const std::size_t d = D ? D : op.out.shape[2];
  const std::uint32_t* __restrict rows = op.rows.ptr<std::uint32_t>();
  const std::uint32_t* __restrict offsets = op.row_offsets.ptr<std::uint32_t>();
  const Row* __restrict weights = op.weights.ptr<Row>();
  const float* __restrict scales = op.scale.empty() ? nullptr : op.scale.ptr<float>();
  const std::uint32_t last = offsets[end];
  std::size_t slot = begin % slots;
  float* sample_out = op.out.row<float>(begin / slots);
  for (std::size_t bucket = begin; bucket < end; ++bucket) {
    float* out = sample_out + slot * d;
    bool first = true;
    for (std::uint32_t i = offsets[bucket]; i < offsets[bucket + 1]; ++i) {
      if (i + kLookupAhead < last && rows[i + kLookupAhead] != kNoRow) {
        prefetch_row(weights + rows[i + kLookupAhead] * d, d);
      }
      if (rows[i] == kNoRow) continue;
      const Row* row = weights + rows[i] * d;
      if (first) {
        set_scaled<D>(out, row, 1.0f, d);
      } else {
        add_scaled<D>(out, row, 1.0f, d);
      }
      first = false;
    }
    if (first) {
      std::fill(out, out + d, 0.0f);
    } else if (scales && scales[bucket] != 1.0f) {
      set_scaled<D>(out, out, scales[bucket], d);
    }
    if (++slot == slots) {
      slot = 0;
      sample_out += op.out.row_stride;
    }
  }
}

void embedding_lookup_kernel(const OpContext& context, const EmbeddingLookup& op) {
  const auto run = [&]<std::size_t D, class Row>(std::integral_constant<std::size_t, D>, Row) {
    parallel_for(*context.pool, op.row_offsets.size() - 1, kLookupGrain,
                 [&](std::size_t begin, std::size_t end) { look_up<D, Row>(op, begin, end); });
  };
  if (op.weights.dtype == TensorScalarType::BFloat16) {
    return with_vec_size(op.out.shape[2], [&](auto d) { run(d, BFloat16{}); });
  }
  // Linear parts of models have one weight a key.
  if (op.out.shape[2] == 1) return run(std::integral_constant<std::size_t, 1>{}, float{});
  with_vec_size(op.out.shape[2], [&](auto d) { run(d, float{}); });
}

const OpRegistration<EmbeddingLookup> embedding_lookup_cpu{DeviceType::Cpu,
                                                           &embedding_lookup_kernel};
const SeveralRegistration<EmbeddingLookup> several_embedding_lookup_cpu{DeviceType::Cpu};

}  // namespace

void EmbeddingLookup::check() const {
  const std::size_t buckets = check_row_offsets(kName, row_offsets);
  check_array(kName, "rows", rows, TensorScalarType::UInt32, rows.size());
  check_real(kName, "out", out);
  HCTR_CHECK(out.shape.size() == 3 && out.shape[0] * out.shape[1] == buckets, kName,
             ": out has shape ", to_string(out.shape), " for ", buckets,
             " buckets, must be (samples, slots, d)");
  const bool of_table =
      weights.dtype == TensorScalarType::Float32 || weights.dtype == TensorScalarType::BFloat16;
  HCTR_CHECK(of_table || weights.dtype == out.dtype, kName, ": weights hold ",
             to_string(weights.dtype), " for an out of ", to_string(out.dtype),
             ", must hold float32, bfloat16 or the same as out");
  HCTR_CHECK(weights.shape.size() == 2 && weights.shape[1] == out.shape[2] && weights.contiguous(),
             kName, ": weights have shape ", to_string(weights.shape), ", must be (rows, ",
             out.shape[2], "), one row after the other");
  if (!scale.empty()) check_array(kName, "scale", scale, TensorScalarType::Float32, buckets);
}

}  // namespace hugectr
