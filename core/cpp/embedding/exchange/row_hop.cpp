// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/row_hop.hpp"

#include <numeric>

namespace hugectr {
namespace {

TensorRef words_of_part(TensorRef ref, const RowsOfPart& part) {
  ref.data = ref.ptr<std::uint32_t>() + part.first;
  ref.shape = {part.count};
  ref.row_stride = 1;
  return ref;
}

}  // namespace

RowsOfPart rows_of_part(const std::vector<std::size_t>& counts, MicroBatch part) {
  const auto begin = counts.begin() + static_cast<std::ptrdiff_t>(part.first(counts.size()));
  const auto end = begin + static_cast<std::ptrdiff_t>(part.samples(counts.size()));
  RowsOfPart rows;
  rows.first = std::accumulate(counts.begin(), begin, std::size_t{0});
  rows.of_device.assign(begin, end);
  rows.count = std::accumulate(begin, end, std::size_t{0});
  return rows;
}

void send_numbers(const TensorRef& in, const std::vector<std::size_t>& sent, const TensorRef& out,
                  const std::vector<std::size_t>& came, std::size_t micro_batches,
                  std::vector<CollectiveCall>& calls) {
  for (std::size_t m = 0; m < micro_batches; ++m) {
    const RowsOfPart from = rows_of_part(sent, {m, micro_batches});
    const RowsOfPart to = rows_of_part(came, {m, micro_batches});
    calls.push_back(all_to_all_call(words_of_part(in, from), from.of_device, words_of_part(out, to),
                                    to.of_device));
  }
}

}  // namespace hugectr
