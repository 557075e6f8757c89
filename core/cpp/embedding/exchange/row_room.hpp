// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/embedding/exchange/exchange.hpp"

namespace hugectr {

/// What sums of vectors of a type are made in: a key of every sample would leave the range of
/// float16. What is rounded for its way is not rounded before.
inline TensorScalarType sum_type(const SparseEmbeddingHashParams& params, TensorScalarType type) {
  const bool packed = params.wire != WireType::Own;
  return packed || type == TensorScalarType::Float16 ? TensorScalarType::Float32 : type;
}

/// Memory of one device for rows of one table on their way, where a batch has more of them than
/// the route has room for pooled vectors: slots of several keys. As large as was asked for.
class RowRoom {
 public:
  /// For so many rows as owner and as a device that asks, and some more; at least as large as
  /// `former`, if there is one. Throws OutOfMemory.
  static std::shared_ptr<const RowRoom> larger(const Route& route, const RowRoom* former,
                                               const std::shared_ptr<MemoryResource>& memory,
                                               const std::string& owner, std::size_t asked,
                                               std::size_t given);
  struct Rows {
    std::size_t asked = 0, given = 0;
  };
  /// Most rows that may travel in a training batch in which a device has so many keys as owner,
  /// and its samples so many.
  static Rows most_rows(const Route& route, std::size_t own_keys, std::size_t sample_keys);
  /// Whether the memory of the route does.
  static bool fits_route(const Route& route, std::size_t asked, std::size_t given);

  bool fits(std::size_t asked, std::size_t given) const {
    return asked <= asked_rows_ && given <= given_rows_;
  }
  /// (rows, 1, d) of `type` for what other devices ask of this one, and for what comes to it.
  TensorRef asked(TensorScalarType type, std::size_t rows) const {
    return vectors(asked_.ref(), type, rows);
  }
  TensorRef given(TensorScalarType type, std::size_t rows) const {
    return vectors(given_.ref(), type, rows);
  }
  /// For the bytes of both, where they are packed.
  TensorRef asked_bytes() const { return asked_bytes_.ref(); }
  TensorRef given_bytes() const { return given_bytes_.ref(); }
  /// Of a vector of `type` on its way.
  static std::size_t vector_bytes(const SparseEmbeddingHashParams& params, TensorScalarType type);
  const std::vector<MemoryReportEntry>& report() const { return arena_->report(); }
  std::size_t size_in_bytes() const { return arena_->size_in_bytes(); }

 private:
  RowRoom() = default;
  static TensorRef vectors(TensorRef buffer, TensorScalarType type, std::size_t rows);

  std::shared_ptr<DeviceBuffer2> arena_;
  TensorBag2 asked_, given_;  ///< (rows, d) of what sums are made in
  TensorBag2 asked_bytes_, given_bytes_;
  std::size_t asked_rows_ = 0, given_rows_ = 0;
};

}  // namespace hugectr
