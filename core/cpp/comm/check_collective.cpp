// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/check_collective.hpp"

#include <cstring>
#include <string>
#include <string_view>

#include "core/cpp/base/error.hpp"
#include "core/cpp/comm/reduction.hpp"

namespace hugectr {
namespace {

void check_tensor(const char* collective, const TensorRef& ref) {
  HCTR_CHECK(!ref.empty() && (ref.data != nullptr || ref.size() == 0), collective,
             ": the tensor has no memory");
  HCTR_CHECK(ref.contiguous(), collective, ": the tensor of shape ", to_string(ref.shape),
             " must be contiguous, its rows lie ", ref.row_stride, " elements apart");
}

void check_pair(const char* collective, const TensorRef& in, const TensorRef& out) {
  check_tensor(collective, in);
  check_tensor(collective, out);
  HCTR_CHECK(in.dtype == out.dtype, collective, ": in holds ", to_string(in.dtype),
             " and out holds ", to_string(out.dtype));
}

void check_summable(const char* collective, const TensorRef& ref) {
  HCTR_CHECK(can_sum(ref.dtype), collective, ": can not sum ", to_string(ref.dtype),
             "; use float32, float64, float16, bfloat16, int64, int32 or uint32");
}

std::size_t total(const std::vector<std::size_t>& counts) {
  std::size_t sum = 0;
  for (const std::size_t count : counts) sum += count;
  return sum;
}

std::string describe(const CollectiveCall& call) {
  return concat(call.collective, " of ", call.in.size(), " ", to_string(call.in.dtype));
}

[[noreturn]] void throw_disagree(std::size_t a, const std::string& what_a, std::size_t b,
                                 const std::string& what_b) {
  throw CommError(concat("ranks disagree: rank ", a, " calls ", what_a, ", rank ", b, " calls ",
                         what_b, "; every rank must make the same collectives in the same order"));
}

void check_counts(std::size_t from, const CollectiveCall& sender, std::size_t to,
                  const CollectiveCall& receiver) {
  const std::size_t sent = sender.send_counts[to];
  const std::size_t expected = receiver.receive_counts[from];
  if (sent != expected) {
    throw CommError(concat("ranks disagree in all_to_all: rank ", from, " sends ", sent,
                           " elements to rank ", to, ", which expects ", expected));
  }
}

}  // namespace

void check_all_reduce(const TensorRef& data) {
  check_tensor("all_reduce", data);
  check_summable("all_reduce", data);
}

void check_reduce_scatter(const TensorRef& in, const TensorRef& out, std::size_t ranks) {
  check_pair("reduce_scatter", in, out);
  check_summable("reduce_scatter", in);
  HCTR_CHECK(in.size() == ranks * out.size(), "reduce_scatter: in has ", in.size(),
             " elements, not ", ranks, " blocks of ", out.size());
}

void check_all_gather(const TensorRef& in, const TensorRef& out, std::size_t ranks) {
  check_pair("all_gather", in, out);
  HCTR_CHECK(out.size() == ranks * in.size(), "all_gather: out has ", out.size(), " elements, not ",
             ranks, " blocks of ", in.size());
}

void check_all_to_all(const TensorRef& in, const std::vector<std::size_t>& send_counts,
                      const TensorRef& out, const std::vector<std::size_t>& receive_counts,
                      std::size_t ranks) {
  check_pair("all_to_all", in, out);
  HCTR_CHECK(send_counts.size() == ranks && receive_counts.size() == ranks,
             "all_to_all: needs one send and one receive count per rank (", ranks, "), got ",
             send_counts.size(), " and ", receive_counts.size());
  HCTR_CHECK(total(send_counts) <= in.size() && total(receive_counts) <= out.size(),
             "all_to_all: the counts ask for ", total(send_counts), " elements of ", in.size(),
             " in and ", total(receive_counts), " of ", out.size(), " out");
}

void check_call(const CollectiveCall& call, std::size_t ranks) {
  const std::string_view name = call.collective;
  if (name == "reduce_scatter") return check_reduce_scatter(call.in, call.out, ranks);
  if (name == "all_gather") return check_all_gather(call.in, call.out, ranks);
  HCTR_CHECK(name == "all_to_all", name, " can not be made together with other collectives");
  check_all_to_all(call.in, call.send_counts, call.out, call.receive_counts, ranks);
}

void check_broadcast(const TensorRef& data, std::size_t root, std::size_t ranks) {
  check_tensor("broadcast", data);
  HCTR_CHECK(root < ranks, "broadcast: there is no rank ", root, " among ", ranks);
}

void check_agreement(std::size_t rank_a, const CollectiveCall& a, std::size_t rank_b,
                     const CollectiveCall& b) {
  const bool sizes_may_differ = !a.send_counts.empty();
  if (std::strcmp(a.collective, b.collective) != 0 || a.in.dtype != b.in.dtype ||
      (!sizes_may_differ && a.in.size() != b.in.size())) {
    throw_disagree(rank_a, describe(a), rank_b, describe(b));
  }
  if (a.root != b.root) {
    throw_disagree(rank_a, concat(describe(a), " from rank ", a.root), rank_b,
                   concat(describe(b), " from rank ", b.root));
  }
  if (a.send_counts.empty()) return;
  check_counts(rank_a, a, rank_b, b);
  check_counts(rank_b, b, rank_a, a);
}

void check_agreement(std::size_t rank_a, const std::vector<CollectiveCall>& a, std::size_t rank_b,
                     const std::vector<CollectiveCall>& b) {
  if (a.size() != b.size()) {
    throw_disagree(rank_a, concat(describe(a.front()), " and ", a.size() - 1, " more with it"),
                   rank_b, concat(describe(b.front()), " and ", b.size() - 1, " more with it"));
  }
  for (std::size_t i = 0; i < a.size(); ++i) check_agreement(rank_a, a[i], rank_b, b[i]);
}

}  // namespace hugectr
