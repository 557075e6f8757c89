// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/memory/tensor_ref.hpp"

/// What every Communicator asks of a collective's arguments, and of those of the other ranks.
namespace hugectr {

/// What a rank brings to a collective.
struct CollectiveCall {
  const char* collective = "";  ///< name of the Communicator's function
  TensorRef in, out;
  std::vector<std::size_t> send_counts, receive_counts;
  std::size_t root = 0;
  /// all_to_all: what a rank sends itself is left out, for it gets there by another way. Of this
  /// rank alone; the counts have it.
  bool own_apart = false;
};

/// An all-to-all, as Communicator::all_to_all() has its arguments.
inline CollectiveCall all_to_all_call(const TensorRef& in, std::vector<std::size_t> send_counts,
                                      const TensorRef& out, std::vector<std::size_t> receive_counts,
                                      bool own_apart = false) {
  return {.collective = "all_to_all",
          .in = in,
          .out = out,
          .send_counts = std::move(send_counts),
          .receive_counts = std::move(receive_counts),
          .own_apart = own_apart};
}

/// Each throws InvalidArgument naming the collective and what can not work.
HCTR_API void check_all_reduce(const TensorRef& data);
HCTR_API void check_reduce_scatter(const TensorRef& in, const TensorRef& out, std::size_t ranks);
HCTR_API void check_all_gather(const TensorRef& in, const TensorRef& out, std::size_t ranks);
HCTR_API void check_all_to_all(const TensorRef& in, const std::vector<std::size_t>& send_counts,
                               const TensorRef& out, const std::vector<std::size_t>& receive_counts,
                               std::size_t ranks);
/// Any of the three above.
HCTR_API void check_call(const CollectiveCall& call, std::size_t ranks);
HCTR_API void check_broadcast(const TensorRef& data, std::size_t root, std::size_t ranks);

/// Throws CommError naming both ranks unless their calls are parts of one collective.
HCTR_API void check_agreement(std::size_t rank_a, const CollectiveCall& a, std::size_t rank_b,
                              const CollectiveCall& b);
/// The same of collectives that go together, at least one each.
HCTR_API void check_agreement(std::size_t rank_a, const std::vector<CollectiveCall>& a,
                              std::size_t rank_b, const std::vector<CollectiveCall>& b);

}  // namespace hugectr
