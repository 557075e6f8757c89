// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/message_plan.hpp"

#include <string_view>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + MessagePlan::kAlignment - 1) / MessagePlan::kAlignment * MessagePlan::kAlignment;
}

char* bytes_of(const TensorRef& ref, std::size_t element) {
  return static_cast<char*>(ref.data) + element * size_of(ref.dtype);
}

/// f(peer, first element, elements) of what goes to each rank, or comes from it.
template <class F>
void each_block(const std::vector<std::size_t>& counts, const F& f) {
  std::size_t first = 0;
  for (std::size_t peer = 0; peer < counts.size(); ++peer) {
    if (counts[peer] > 0) f(peer, first, counts[peer]);
    first += counts[peer];
  }
}

}  // namespace

MessagePlan::MessagePlan(const std::vector<CollectiveCall>& calls, std::size_t rank,
                         std::size_t size)
    : most_packed_(most_packed(size)) {
  std::vector<Blocks> to(size), from(size);
  for (const CollectiveCall& call : calls) {
    if (std::string_view(call.collective) != "all_to_all") continue;
    const std::size_t width = size_of(call.in.dtype);
    each_block(call.send_counts, [&](std::size_t peer, std::size_t first, std::size_t n) {
      if (peer == rank && call.own_apart) return;
      add(to[peer], {bytes_of(call.in, first), n * width, peer});
    });
    each_block(call.receive_counts, [&](std::size_t peer, std::size_t first, std::size_t n) {
      if (peer == rank && call.own_apart) return;
      add(from[peer], {bytes_of(call.out, first), n * width, peer});
    });
  }
  HCTR_CHECK(to[rank].small.size() == from[rank].small.size(), "all_to_all: rank ", rank,
             " sends itself ", to[rank].small.size(), " small blocks and takes ",
             from[rank].small.size());
  const bool copies_own = to[rank].small.size() > 1;
  for (std::size_t i = 0; copies_own && i < to[rank].small.size(); ++i) {
    const Message& sent = to[rank].small[i];
    const Message& taken = from[rank].small[i];
    HCTR_CHECK(sent.bytes == taken.bytes, "all_to_all: rank ", rank, " sends itself ", sent.bytes,
               " bytes and takes ", taken.bytes);
    before_.push_back({sent.data, taken.data, sent.bytes});
  }
  for (std::size_t peer = 0; peer < size; ++peer) {
    if (peer == rank && copies_own) {
      to[peer].small.clear();
      from[peer].small.clear();
    }
    send(to[peer], peer);
  }
  for (std::size_t peer = 0; peer < size; ++peer) receive(from[peer], peer);
}

void MessagePlan::add(Blocks& blocks, const Message& message) const {
  const std::size_t packed = blocks.packed + aligned(message.bytes);
  if (message.bytes >= kSmall || packed > most_packed_) return blocks.alone.push_back(message);
  blocks.small.push_back(message);
  blocks.packed = packed;
}

void MessagePlan::send(const Blocks& blocks, std::size_t peer) {
  sends_.insert(sends_.end(), blocks.alone.begin(), blocks.alone.end());
  if (blocks.small.size() < 2) {
    sends_.insert(sends_.end(), blocks.small.begin(), blocks.small.end());
    return;
  }
  for (const Message& message : blocks.small) {
    before_.push_back({message.data, nullptr, message.bytes});
  }
  packed_sends_.push_back({sends_.size(), bytes_, before_.size() - blocks.small.size()});
  sends_.push_back({nullptr, blocks.packed, peer});
  bytes_ += blocks.packed;
}

void MessagePlan::receive(const Blocks& blocks, std::size_t peer) {
  receives_.insert(receives_.end(), blocks.alone.begin(), blocks.alone.end());
  if (blocks.small.size() < 2) {
    receives_.insert(receives_.end(), blocks.small.begin(), blocks.small.end());
    return;
  }
  for (const Message& message : blocks.small) {
    after_.push_back({nullptr, message.data, message.bytes});
  }
  packed_receives_.push_back({receives_.size(), bytes_, after_.size() - blocks.small.size()});
  receives_.push_back({nullptr, blocks.packed, peer});
  bytes_ += blocks.packed;
}

void MessagePlan::place(char* memory) {
  for (std::size_t p = 0; p < packed_sends_.size(); ++p) {
    const Packed& packed = packed_sends_[p];
    char* at = sends_[packed.message].data = memory + packed.at;
    const std::size_t end =
        p + 1 < packed_sends_.size() ? packed_sends_[p + 1].first_copy : before_.size();
    for (std::size_t i = packed.first_copy; i < end; ++i) {
      before_[i].to = at;
      at += aligned(before_[i].bytes);
    }
  }
  for (std::size_t p = 0; p < packed_receives_.size(); ++p) {
    const Packed& packed = packed_receives_[p];
    const char* at = receives_[packed.message].data = memory + packed.at;
    const std::size_t end =
        p + 1 < packed_receives_.size() ? packed_receives_[p + 1].first_copy : after_.size();
    for (std::size_t i = packed.first_copy; i < end; ++i) {
      after_[i].from = at;
      at += aligned(after_[i].bytes);
    }
  }
}

}  // namespace hugectr
