// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/comm/communicator.hpp"

namespace hugectr {

/// Ranks of a job in its nodes (machines): every node has as many, so that a rank has a place in
/// its node, and each place one rank a node.
class HCTR_API NodeMap {
 public:
  /// Throws InvalidArgument, naming two nodes, when they have unlike numbers of processes, or
  /// processes of devices.
  NodeMap(const JobRanks& job, const std::vector<std::size_t>& node_of_process);

  std::size_t nodes() const { return ranks_.size(); }
  std::size_t places() const { return ranks_.front().size(); }
  std::size_t rank(std::size_t node, std::size_t place) const { return ranks_[node][place]; }
  std::size_t node_of(std::size_t rank) const { return node_of_[rank]; }
  std::size_t place_of(std::size_t rank) const { return place_of_[rank]; }

  /// The ranks of a node as a job of their own, whose processes are a part of `processes`.
  JobRanks node_job(std::size_t node, const JobRanks& job,
                    const std::shared_ptr<IProcessGroup>& processes) const;
  /// The ranks of a place in all nodes.
  JobRanks place_job(std::size_t place, const JobRanks& job,
                     const std::shared_ptr<IProcessGroup>& processes) const;

 private:
  static JobRanks job_of(const std::vector<std::size_t>& ranks, const JobRanks& job,
                         const std::shared_ptr<IProcessGroup>& processes);

  std::vector<std::vector<std::size_t>> ranks_;  ///< [node][place]
  std::vector<std::size_t> node_of_, place_of_;
};

/// Some of a group's processes, in ascending order. Every process of the group makes the same
/// number of calls in the same order, each in the part it belongs to.
HCTR_API std::shared_ptr<IProcessGroup> make_part_of_group(std::shared_ptr<IProcessGroup> whole,
                                                           std::vector<std::size_t> members);

}  // namespace hugectr
