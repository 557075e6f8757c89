// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/comm/communicator.hpp"

namespace hugectr {

/// Whether collectives of a job go through nodes (HUGECTR_BY_NODE): never, always where they can,
/// or where that took less time when it was tried.
enum class ByNode { Never, Always, Timed };

/// How the processes of a job are dealt to nodes, and what that is used for.
struct NodesOfJob {
  ByNode by_node = ByNode::Never;
  std::vector<std::size_t> node_of_process;

  bool used() const;  ///< there are several nodes, and it is asked for
};

/// From the environment of every process: HUGECTR_BY_NODE (0, 1 or auto; not set: 0) and
/// HUGECTR_NODE, the name of the node (not set: the host's). Throws InvalidArgument, on all
/// processes alike, for another word and where processes differ. Collective.
NodesOfJob find_nodes(IProcessGroup& processes);

}  // namespace hugectr
