// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/comm/node_map.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// The communicators of one rank that a NodeCommunicator is made of.
struct NodeStages {
  std::unique_ptr<Communicator> flat;  ///< of all ranks
  std::unique_ptr<Communicator> near;  ///< of its node, in the order of places
  std::unique_ptr<Communicator> far;   ///< of its place, in the order of nodes
};

/// Collectives of a job of several nodes in two stages, one inside nodes and one between them, so
/// that what all ranks of a node share goes between nodes once. Of N ranks, P a node, each sends
///
///   all_reduce       2 n / P                   numbers to other nodes, instead of up to 2 n
///   reduce_scatter   (nodes - 1) blocks        instead of N - P: a node adds up its own first
///   all_gather       (nodes - 1) times its own, instead of N - P times
///
/// all_to_all, broadcast and barrier go to all ranks directly: nothing of them is shared. Sums are
/// those of nodes in their order, each of its ranks in theirs: the same bits in every run, and
/// those of the direct way up to rounding.
class NodeCommunicator final : public Communicator {
 public:
  /// Which calls go in two stages: all that can; or, after tune(), those that took less time so.
  NodeCommunicator(NodeStages stages, NodeMap map, std::shared_ptr<MemoryResource> memory);

  std::size_t rank() const override { return stages_.flat->rank(); }
  std::size_t size() const override { return stages_.flat->size(); }
  void all_reduce(TensorRef data, Stream& stream) override;
  void reduce_scatter(TensorRef in, TensorRef out, Stream& stream) override;
  void all_gather(TensorRef in, TensorRef out, Stream& stream) override;
  void all_to_all(TensorRef in, const std::vector<std::size_t>& send_counts, TensorRef out,
                  const std::vector<std::size_t>& receive_counts, Stream& stream) override;
  void together(const std::vector<CollectiveCall>& calls, Stream& stream) override;
  void broadcast(TensorRef data, std::size_t root, Stream& stream) override;
  void barrier(Stream& stream) override;

  void abort(const std::string& reason) noexcept override;
  void leave(const std::string& reason) noexcept override;
  void rest() noexcept override;
  void wait_until_left() noexcept override;
  void renew() override;
  void tune(Stream& stream, std::vector<double>& found) override;
  /// After tune(): where large gathers go in two stages, which are blocks for all ranks of a node.
  const NodeMap* nodes() const override { return choice_[kAllGather].back() ? &map_ : nullptr; }

 private:
  enum Kind { kAllReduce, kReduceScatter, kAllGather, kKinds };
  /// Bytes of a rank's larger tensor up to which a choice counts; the last is for all above.
  static constexpr std::array<std::size_t, 3> kSizes{1 << 16, 1 << 20, 1 << 24};

  bool staged(Kind kind, std::size_t bytes) const;
  void reduce_in_stages(TensorRef data, Stream& stream);
  void scatter_in_stages(const TensorRef& in, const TensorRef& out, Stream& stream);
  void gather_in_stages(const TensorRef& in, const TensorRef& out, Stream& stream);
  /// Memory for `count` numbers in the order of places, and for those of one place.
  std::array<TensorRef, 2> scratch(const TensorRef& like, std::size_t count, Stream& stream);
  void make_scratch(std::size_t bytes, Stream& stream);
  /// Copies N blocks from the order of ranks into that of places and then nodes, or back.
  void reorder(const TensorRef& ranks, const TensorRef& places, bool to_places, Stream& stream);
  std::string described(const std::vector<double>& found) const;
  double seconds(Kind kind, std::size_t bytes, bool in_stages, Stream& stream);

  NodeStages stages_;
  NodeMap map_;
  std::shared_ptr<MemoryResource> memory_;
  std::shared_ptr<DeviceBuffer2> arena_;
  TensorBag2 all_, part_;
  std::array<std::array<bool, kSizes.size()>, kKinds> choice_;
};

}  // namespace hugectr
