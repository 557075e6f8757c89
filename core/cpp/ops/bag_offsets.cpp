// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/bag_offsets.hpp"

#include <atomic>
#include <cstdint>

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kBagGrain = 16384;

template <class Offset>
void take_offsets(const OpContext& context, const BagOffsets& op) {
  const Offset* const offsets = op.offsets.ptr<Offset>();
  std::uint32_t* __restrict bags = op.bags.ptr<std::uint32_t>();
  const std::size_t m = op.bags.size() - 1;
  std::atomic<bool> wrong{false};
  parallel_for(*context.pool, m + 1, kBagGrain, [&](std::size_t begin, std::size_t end) {
    bool here = false;
    for (std::size_t b = begin; b < end; ++b) {
      bags[b] = offset_within(offsets[b], op.first, op.last);
      here |= offset_is_wrong(offsets, b, m, op.first, op.last);
    }
    if (here) wrong = true;
  });
  if (wrong) *op.wrong.ptr<std::int64_t>() = 1;
}

void bag_offsets_kernel(const OpContext& context, const BagOffsets& op) {
  op.offsets.dtype == TensorScalarType::Int64 ? take_offsets<std::int64_t>(context, op)
                                              : take_offsets<std::int32_t>(context, op);
}

const OpRegistration<BagOffsets> bag_offsets_cpu{DeviceType::Cpu, &bag_offsets_kernel};
const SeveralRegistration<BagOffsets> several_bag_offsets_cpu{DeviceType::Cpu};

}  // namespace

void BagOffsets::check() const {
  HCTR_CHECK(
      (offsets.dtype == TensorScalarType::Int64 || offsets.dtype == TensorScalarType::Int32) &&
          offsets.size() >= 1 && offsets.contiguous(),
      kName, ": offsets hold ", to_string(offsets.dtype), " of shape ", to_string(offsets.shape),
      ", must hold bags + 1 int64 or int32");
  check_array(kName, "bags", bags, TensorScalarType::UInt32, offsets.size());
  check_array(kName, "wrong", wrong, TensorScalarType::Int64, 1);
  HCTR_CHECK(0 <= first && first <= last && last - first <= std::int64_t{0xffffffff}, kName,
             ": keys ", first, " to ", last, ", must ascend and be less than 2^32");
}

}  // namespace hugectr
