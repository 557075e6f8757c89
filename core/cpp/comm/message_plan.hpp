// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/comm/check_collective.hpp"
#include "core/cpp/memory/copied_bytes.hpp"

namespace hugectr {

/// Which messages all-to-alls that go together are made of: small ones to one device are packed
/// into one, because a message costs microseconds whatever its size, and what a device sends itself
/// is copied. What both ends of a message know decides about it, so that they agree without asking.
class HCTR_API MessagePlan {
 public:
  /// A message of fewer bytes is packed where there is another such one to the same device: alone
  /// each takes some 15 us more, and so many are packed and unpacked in 10.
  static constexpr std::size_t kSmall = std::size_t{8} << 20;
  /// A packed message has no more bytes than the first of these, those of all devices each way no
  /// more than the second; small ones beyond that go alone, which NCCL makes in kernels of their
  /// own, each 60 us and more. It bounds the memory.
  static constexpr std::size_t kMostPacked = std::size_t{64} << 20;
  static constexpr std::size_t kMostOfAll = std::size_t{256} << 20;
  /// Of a message among so many devices, which both ends know.
  static std::size_t most_packed(std::size_t size) {
    return size * kMostPacked <= kMostOfAll ? kMostPacked : kMostOfAll / size;
  }
  /// Where packed messages begin, and what they are made of: packing and unpacking moves words.
  static constexpr std::size_t kAlignment = 16;

  struct Message {
    char* data = nullptr;
    std::size_t bytes = 0, peer = 0;
  };

  /// `calls`: all-to-alls among others, which are passed over; lets check_call() pass each.
  MessagePlan(const std::vector<CollectiveCall>& calls, std::size_t rank, std::size_t size);

  /// Memory that packed messages need, those that are sent first.
  std::size_t bytes() const { return bytes_; }
  /// Places the packed messages; once, before what follows is read.
  void place(char* memory);

  /// In the order in which both ends of a pair give them to NCCL.
  const std::vector<Message>& sends() const { return sends_; }
  const std::vector<Message>& receives() const { return receives_; }
  /// Before messages are sent, what the device sends itself among them; and after they came.
  const std::vector<CopiedBytes>& before() const { return before_; }
  const std::vector<CopiedBytes>& after() const { return after_; }

 private:
  /// Of one pair and direction, in the order of the calls.
  struct Blocks {
    std::vector<Message> alone, small;
    std::size_t packed = 0;  ///< bytes of the small ones
  };
  struct Packed {
    std::size_t message = 0, at = 0;  ///< number among sends_ or receives_, place in the memory
    std::size_t first_copy = 0;       ///< of its copies, which lie together
  };
  void add(Blocks& blocks, const Message& message) const;
  void send(const Blocks& blocks, std::size_t peer);
  void receive(const Blocks& blocks, std::size_t peer);

  std::size_t most_packed_ = 0, bytes_ = 0;
  std::vector<Message> sends_, receives_;
  std::vector<Packed> packed_sends_, packed_receives_;
  std::vector<CopiedBytes> before_, after_;
};

}  // namespace hugectr
