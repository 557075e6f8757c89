// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/comm/node_map.hpp"
#include "core/cpp/embedding/micro_batch.hpp"

namespace hugectr {

/// Rows of one micro-batch among all of a plan, and how many of them each device has or gets.
struct RowsOfPart {
  std::size_t first = 0, count = 0;
  std::vector<std::size_t> of_device;
};
/// `counts`: of device r in micro-batch m, number m * N + r.
HCTR_API RowsOfPart rows_of_part(const std::vector<std::size_t>& counts, MicroBatch part);

/// One hop of rows on their way from the device that owns them to those that ask for them: who may
/// ask, and by which number. Rows go directly; or first to the device of their owner's place in
/// each node that asks, once for all of its devices, which then hands them on inside its node.
class RowHop {
 public:
  enum class Kind { Direct, BetweenNodes, InsideNode };
  /// `nodes`: of a hop that is not direct; it must outlive this.
  RowHop(Kind kind, std::size_t ranks, const NodeMap* nodes)
      : kind_(kind), ranks_(ranks), nodes_(nodes) {}

  std::size_t ranks() const { return ranks_; }
  /// How many ask one device.
  std::size_t askers() const {
    return kind_ == Kind::Direct         ? ranks_
           : kind_ == Kind::BetweenNodes ? nodes_->nodes()
                                         : nodes_->places();
  }
  /// By which number a device asks, or its node does.
  std::size_t number_of(std::size_t rank) const {
    return kind_ == Kind::Direct         ? rank
           : kind_ == Kind::BetweenNodes ? nodes_->node_of(rank)
                                         : nodes_->place_of(rank);
  }
  /// Who gets, by that number, what `rank` is asked for; and who is asked by it under its own.
  std::size_t partner(std::size_t rank, std::size_t number) const {
    return kind_ == Kind::Direct         ? number
           : kind_ == Kind::BetweenNodes ? nodes_->rank(number, nodes_->place_of(rank))
                                         : nodes_->rank(nodes_->node_of(rank), number);
  }
  /// number_of() every device, for request_rows.
  std::vector<std::int64_t> numbers() const {
    std::vector<std::int64_t> all;
    for (std::size_t r = 0; r < ranks_; ++r) all.push_back(static_cast<std::int64_t>(number_of(r)));
    return all;
  }

 private:
  Kind kind_;
  std::size_t ranks_;
  const NodeMap* nodes_;
};

/// Appends the collectives that numbers (uint32) of one table travel by, one a micro-batch.
void send_numbers(const TensorRef& in, const std::vector<std::size_t>& sent, const TensorRef& out,
                  const std::vector<std::size_t>& came, std::size_t micro_batches,
                  std::vector<CollectiveCall>& calls);

}  // namespace hugectr
