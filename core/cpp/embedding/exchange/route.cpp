// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/exchange.hpp"

namespace hugectr {

Route::Route(const SparseEmbeddingHashParams& params, const Placement& placement, std::size_t rank,
             const std::shared_ptr<MemoryResource>& memory, const std::string& owner)
    : params_(params), placement_(placement), rank_(rank) {
  arena_ = DeviceBuffer2::create(owner + " exchange", DeviceAllocator(memory));
  if (device_count() > 1) {
    const std::size_t d = params.embedding_vec_size;
    if (!of_own_samples()) {
      arena_->reserve(pooled_vectors(rank_) * own_columns(), params.output_type, &pooled_,
                      "pooled vectors");
    }
    arena_->reserve(packed_vectors() * d, params.output_type, &packed_, "packed vectors");
    if (params.micro_batches > 1 && !of_own_samples()) {
      const std::size_t vectors = params.batch_size / params.micro_batches * own_slots();
      arena_->reserve(vectors * own_columns(), params.output_type, &come_, "gradients that come");
    }
    if (params.wire != WireType::Own && params.wire != WireType::Float32) {
      const std::size_t width = placement.interleave(d).width;
      const std::size_t bytes = wire_bytes(params.wire, width);
      const std::size_t most =
          std::max(pooled_vectors(rank_) * (own_columns() / width), packed_vectors() * (d / width));
      arena_->reserve(most * bytes, TensorScalarType::UInt8, &wire_sent_, "vectors to send");
      arena_->reserve(most * bytes, TensorScalarType::UInt8, &wire_came_, "vectors that come");
    }
  }
  arena_->allocate();
}

TensorRef Route::vectors(const FlatBuffer& buffer, TensorScalarType type, std::size_t samples,
                         std::size_t slots, std::size_t d) {
  HCTR_CHECK(samples * slots * d * size_of(type) <= buffer.size_in_bytes(), "a batch of ", samples,
             " samples of ", to_string(type), " is larger than the exchange buffers were made for");
  TensorRef ref = buffer.ref();
  ref.dtype = type;
  ref.shape = {samples, slots, d};
  ref.row_stride = slots * d;
  return ref;
}

}  // namespace hugectr
