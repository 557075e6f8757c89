// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/cpp/data/csr_chunk.hpp"

namespace hugectr {

/// First 64 bytes of a Norm file (framed like a record when the file has checksums).
struct NormHeader {
  std::int64_t error_check;  ///< 0 none, 1 sum
  std::int64_t number_of_records;
  std::int64_t label_dim;
  std::int64_t dense_dim;
  std::int64_t slot_num;  ///< of all sparse inputs together
  std::int64_t reserved[3];
};
static_assert(sizeof(NormHeader) == 64);

/// Reads a T from any address.
template <class T>
T load(const std::uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

/// Sum of the bytes modulo 256.
std::uint8_t byte_sum(const std::uint8_t* p, std::size_t n);

/// True when `slots` slots from p on hold exactly one key each.
inline bool is_one_hot(const std::uint8_t* p, std::size_t slots, std::size_t key_bytes) {
  std::uint32_t difference = 0;
  for (std::size_t s = 0; s < slots; ++s) {
    difference |= load<std::uint32_t>(p + s * (4 + key_bytes)) ^ 1u;
  }
  return difference == 0;
}

/// What a record must look like for a model; sizes in bytes, without the frame.
struct NormRecordShape {
  struct Slots {
    std::string name;       ///< of the sparse input
    std::size_t count = 0;  ///< slots
    std::size_t most = 0;   ///< keys of a slot, and of all slots of a sample together
    bool one_hot_allowed = false;
    std::vector<int> each;  ///< keys each slot may have; empty when it may have `most`
  };
  NormRecordShape(const InputLayout& layout, bool framed, std::size_t key_bytes);

  bool framed;
  std::size_t key_bytes;
  std::size_t float_bytes;  ///< label and dense
  std::size_t min_payload;  ///< no keys at all
  std::size_t max_payload;  ///< as many keys as the model's Input allows
  std::size_t total_slots;
  std::vector<Slots> inputs;

  std::size_t frame_bytes() const { return framed ? 5 : 0; }
};

/// How far a payload could be followed from nnz to nnz.
struct NormWalk {
  enum class End { Complete, OutOfBytes, BadNnz };
  End end = End::Complete;
  std::size_t bytes = 0;  ///< Complete: size of the payload; else where the walk stopped
  std::string what;       ///< BadNnz: what was found and what is allowed
};

/// Size of the payload at p, looking at no more than `available` bytes. The text of `what` is made
/// only when describe is true.
NormWalk walk_payload(const NormRecordShape& shape, const std::uint8_t* p, std::size_t available,
                      bool describe);

}  // namespace hugectr
