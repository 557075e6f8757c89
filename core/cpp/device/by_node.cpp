// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/by_node.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

std::string node_name() {
  if (std::string name = variable("HUGECTR_NODE"); !name.empty()) return name;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

ByNode by_node_of(const std::string& word) {
  if (word.empty() || word == "0") return ByNode::Never;
  if (word == "1") return ByNode::Always;
  if (word == "auto") return ByNode::Timed;
  throw InvalidArgument(
      concat("HUGECTR_BY_NODE is '", word, "': 0, 1 or auto are allowed, on all processes alike"));
}

}  // namespace

bool NodesOfJob::used() const {
  const auto& nodes = node_of_process;
  return by_node != ByNode::Never &&
         std::any_of(nodes.begin(), nodes.end(), [](std::size_t node) { return node > 0; });
}

NodesOfJob find_nodes(IProcessGroup& processes) {
  const std::string own = variable("HUGECTR_BY_NODE");
  const auto words = processes.all_gather_any({own.begin(), own.end()});
  NodesOfJob found;
  for (std::size_t p = 0; p < words.size(); ++p) {
    const std::string word(words[p].begin(), words[p].end());
    const ByNode by_node = by_node_of(word);
    HCTR_CHECK(p == 0 || by_node == found.by_node, "HUGECTR_BY_NODE is '",
               std::string(words[0].begin(), words[0].end()), "' in process 0 and '", word,
               "' in process ", p, ": give all processes the same");
    found.by_node = by_node;
  }
  if (found.by_node != ByNode::Never) {
    found.node_of_process = nodes_of_processes(processes, node_name());
  }
  return found;
}

}  // namespace hugectr
