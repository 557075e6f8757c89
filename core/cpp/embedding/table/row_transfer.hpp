// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// Bytes of the widest part of a row.
inline std::size_t widest_part(std::size_t vec_size) {
  return std::max(vec_size * sizeof(float), sizeof(std::int64_t));
}

/// Values of the same rows of several arrays on their way between a device and the host.
///
/// While a device of its own memory gathers a piece of rows and sends it over the bus (or takes and
/// scatters it), the threads of the pool copy another one. Host memory that nobody has written yet
/// gets its pages from all threads too. What is bfloat16 in the table is float32 on the host:
/// widened as it is read, rounded to nearest even as it is written, by the threads that copy.
class RowTransfer {
 public:
  /// `context` is of the stream that the arrays belong to. `rows`: n rows on the device; kNoRow:
  /// none (write() alone). `places`: n rows of the host's array; empty: row i is i. Both must stay
  /// as they are meanwhile. `row_bytes`: of the widest row to come. `staged`: whether values travel
  /// through staging memory; where the device's memory is the host's, only tests want that.
  RowTransfer(GPUResource& gpu, const OpContext& context, const std::string& owner,
              const std::vector<std::uint32_t>& rows, const std::vector<std::size_t>& places,
              std::size_t row_bytes, bool staged);

  /// host[places[i]] = source[rows[i]]. source: (R, d) on the device, packed; host: rows of as many
  /// numbers. Returns when the values are there.
  void read(const TensorRef& source, void* host);
  /// target[rows[i]] = host[places[i]]. Returns when `host` may change.
  void write(const void* host, const TensorRef& target);

 private:
  /// Rows on the device: ids and values of up to a piece of them.
  TensorRef rows(std::size_t begin, std::size_t end) const;
  TensorRef values(const TensorRef& like, std::size_t piece, std::size_t count) const;
  void take_piece(const TensorRef& source, void* host, std::size_t piece, std::size_t begin,
                  std::size_t end);
  void gather_on_host(const TensorRef& source, void* host);
  void copy_on_host(const TensorRef& table, void* host, bool to_host);

  OpContext context_;
  const std::vector<std::uint32_t>& rows_;
  const std::vector<std::size_t>& places_;
  StagingPieces* pieces_ = nullptr;  ///< null: the device's memory is the host's
  std::shared_ptr<DeviceBuffer2> arena_;
  TensorBag2 ids_;
  Tensor2<std::uint8_t> staged_;
};

}  // namespace hugectr
