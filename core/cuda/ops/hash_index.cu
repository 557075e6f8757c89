// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/hash_index.hpp"
#include "core/cuda/device/launch.cuh"
#include "core/cuda/primitives/direct_index.cuh"
#include "core/cuda/primitives/hash_inserts.cuh"
#include "core/cuda/primitives/hash_items.cuh"
#include "core/cuda/primitives/hash_lines.cuh"
#include "core/cuda/primitives/many.cuh"

namespace hugectr::cuda {
namespace {

constexpr unsigned kHashThreads = 256;

template <class Key, class Op>
Lookup<Key> lookup_of(const Op& op) {
  return {op.keys.template ptr<Key>(),
          op.slot_num ? op.buckets.template ptr<std::uint32_t>() : nullptr,
          op.rows.template ptr<std::uint32_t>(),
          words_of(op.report),
          static_cast<std::uint32_t>(op.keys.size()),
          {static_cast<std::uint32_t>(op.slot_num), static_cast<std::uint32_t>(op.slot_stride),
           static_cast<std::uint32_t>(op.slot_first)}};
}

// Moves a line of 64 bytes, or a few at a high load, and 4 + sizeof(Key) bytes of the batch a key.
// Lanes whose first line was full of other keys look on alone: at a load of three quarters that is
// one in eight.
// Visible: which rows may be found.
template <bool kSlots, class Key, class Visible>
__device__ __forceinline__ void find_rows(const Lookup<Key>& lookup,
                                          const HashPlace* __restrict__ places,
                                          std::size_t capacity, const Visible& visible) {
  const std::uint32_t step = gridDim.x * blockDim.x;
  const std::uint32_t lane = threadIdx.x & 31;
  for (std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x - lane;
       first < lookup.n; first += step) {
    const std::uint64_t i = first + lane;
    const Key key = i < lookup.n ? lookup.keys[i] : kEmptyKey<Key>;
    const std::uint32_t slot = kSlots && i < lookup.n ? lookup.slot(i) : 0;
    const std::uint64_t word = key_word(key);
    LineWalk walk(hash_key(widen_key(key), slot), capacity);
    const bool wanted = key != kEmptyKey<Key>;
    LineView view = look<false, kSlots>(places, word, slot, wanted ? walk.line() : kNoLine);
    if (wanted) {
      while ((view.match | view.empty) == 0 && walk.next()) {
        view = look_alone<kSlots>(places, word, slot, walk.line());
      }
      const std::uint32_t row = view.match != 0 ? value_row(view.value) : kNoRow;
      lookup.rows[i] = visible(row) ? row : kNoRow;
    } else if (i < lookup.n) {
      lookup.refuse(static_cast<std::uint32_t>(i));
    }
  }
}

// One table's part of a launch of hash_get().
template <class Key, class Visible>
struct Find {
  Lookup<Key> lookup;
  const HashPlace* places;
  std::size_t capacity;
  Visible visible;
};

template <bool kSlots, class Key, class Visible>
__global__ void __launch_bounds__(kHashThreads, 6) hash_get_kernel(Find<Key, Visible> a) {
  find_rows<kSlots>(a.lookup, a.places, a.capacity, a.visible);
}
template <bool kSlots, class Key, class Visible>
__global__ void __launch_bounds__(kHashThreads, 6)
    find_many_kernel(const __grid_constant__ Many<Find<Key, Visible>> many) {
  const Find<Key, Visible>& a = many.mine();
  find_rows<kSlots>(a.lookup, a.places, a.capacity, a.visible);
}

template <bool kSlots, class Rows>
__global__ void __launch_bounds__(kInsertThreads, 10)
    hash_insert_kernel(Rows rows, HashPlace* places, std::size_t capacity, std::uint32_t n) {
  __shared__ InsertShared shared;
  InsertWarp<kSlots, Rows>(rows, places, capacity, shared).run(n);
}

// One table's part of a launch of hash_get_insert().
template <class Rows>
struct Insert {
  Rows rows;
  HashPlace* places;
  std::size_t capacity;
  std::uint32_t n;
};

template <bool kSlots, class Rows>
__global__ void __launch_bounds__(kInsertThreads, 10)
    insert_many_kernel(const __grid_constant__ Many<Insert<Rows>> many) {
  __shared__ InsertShared shared;
  const Insert<Rows>& a = many.mine();
  InsertWarp<kSlots, Rows>(a.rows, a.places, a.capacity, shared).run(a.n);
}

struct Reports {
  unsigned long long* report;
};
__global__ void preset_many_kernel(const __grid_constant__ Many<Reports> many) {
  unsigned long long* const report = many.mine().report;
  report[kReportedReserved] = ~0ull;  // what a minimum starts from
  report[kReportedLost] = 0;
}

// Sets elements of the report: -1, which is also the greatest unsigned number, what a minimum
// starts from; or 0.
void preset(const OpContext& context, const TensorRef& report, HashReport element, int byte) {
  HCTR_TRY(
      cudaMemsetAsync(words_of(report) + element, byte, sizeof(long long), native_stream(context)));
}

// Every warp takes two groups of keys: those which need a second look nearly fill a warp then, and
// the blocks stay short.
unsigned insert_blocks(std::size_t n) {
  const std::size_t share = 2 * kInsertThreads;
  return static_cast<unsigned>((n + share - 1) / share);
}

template <class Rows>
void launch_insert(const OpContext& context, const char* name, bool slots, const Rows& rows,
                   const TensorRef& index, std::size_t n) {
  const dim3 grid(insert_blocks(n));
  const auto kernel = slots ? &hash_insert_kernel<true, Rows> : &hash_insert_kernel<false, Rows>;
  launch(context, name, grid, dim3(kInsertThreads), 0, kernel, rows, places_of(name, index),
         index.size() / 2, static_cast<std::uint32_t>(n));
}

void hash_clear(const OpContext& context, const HashClear& op) {
  static_assert(kFreePlace == ~std::uint64_t{0} && kUnpublished == ~std::uint64_t{0},
                "the index is cleared byte by byte");
  static_assert(kNoRow == ~std::uint32_t{0}, "a direct one too");
  HCTR_TRY(cudaMemsetAsync(op.index.data, 0xFF, op.index.size_in_bytes(), native_stream(context)));
}

unsigned get_blocks(std::size_t n) {
  return static_cast<unsigned>((n + kHashThreads - 1) / kHashThreads);
}

// Calls f(visible) with which rows may be found.
template <class F>
void with_visible(const HashGet& op, const F& f) {
  const std::uint64_t limit =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(op.row_limit), kDeadRow);
  if (op.births.empty()) {
    f(FirstRows{limit});
  } else {
    f(BornRows{limit, op.births.ptr<std::uint32_t>(), op.birth_limit});
  }
}

// Calls f(Find) with them.
template <class Key, class F>
void with_find_of(const HashGet& op, const F& f) {
  with_visible(op, [&]<class Visible>(const Visible& visible) {
    f(Find<Key, Visible>{lookup_of<Key>(op), places_of(HashGet::kName, op.index),
                         op.index.size() / 2, visible});
  });
}

void direct_get(const OpContext& context, const HashGet& op) {
  preset(context, op.report, kReportedReserved, 0xFF);
  preset(context, op.report, kReportedOutside, 0xFF);
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    with_visible(op, [&](const auto& visible) {
      launch_direct_get(context, op, lookup_of<Key>(op), visible);
    });
  });
}

void hash_get(const OpContext& context, const HashGet& op) {
  if (!op.direct.empty()) return direct_get(context, op);
  preset(context, op.report, kReportedReserved, 0xFF);
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    with_find_of<Key>(op, [&]<class Visible>(const Find<Key, Visible>& args) {
      const auto kernel = op.slot_num > 0 ? &hash_get_kernel<true, Key, Visible>
                                          : &hash_get_kernel<false, Key, Visible>;
      launch(context, HashGet::kName, dim3(get_blocks(op.keys.size())), dim3(kHashThreads), 0,
             kernel, args);
    });
  });
}

// Calls f(rows) with where new keys get theirs.
template <class Key, class F>
void with_rows_of(const HashGetInsert& op, const F& f) {
  const NewRows<Key> rows{lookup_of<Key>(op), words_of(op.counter), op.row_keys.ptr<Key>(),
                          op.slot_num ? op.row_slots.ptr<std::uint32_t>() : nullptr,
                          static_cast<unsigned long long>(op.row_keys.size())};
  if (op.free_rows.empty()) {
    f(rows);
  } else {
    f(ReusedRows<Key>{rows, op.free_rows.ptr<std::uint32_t>(),
                      static_cast<unsigned long long>(op.numbered)});
  }
}

void hash_get_insert(const OpContext& context, const HashGetInsert& op) {
  preset(context, op.report, kReportedReserved, 0xFF);
  preset(context, op.report, kReportedLost, 0);
  if (!op.direct.empty()) preset(context, op.report, kReportedOutside, 0xFF);
  with_key_type(op.keys.dtype, [&]<class Key>(Key) {
    with_rows_of<Key>(op, [&](const auto& rows) {
      if (!op.direct.empty()) {
        return launch_direct_get_insert(context, op, lookup_of<Key>(op), rows);
      }
      launch_insert(context, HashGetInsert::kName, op.slot_num > 0, rows, op.index, op.keys.size());
    });
  });
}

template <class Op>
void preset_many(const OpContext& context, const Several<Op>& several) {
  std::vector<Reports> reports;
  for (const Op& op : several.ops) reports.push_back({words_of(op.report)});
  launch_many<Reports>(context, Op::kSeveralName, reports, dim3(1), &preset_many_kernel,
                       [](const Reports&) { return 1u; });
}

// The ops whose keys are of type Key and whose slots count or not, as arguments of one kind.
template <class Args, class Op, class Key, class With>
std::vector<Args> alike(const Several<Op>& several, bool slots, Key, const With& with) {
  std::vector<Args> all;
  for (const Op& op : several.ops) {
    if (op.keys.dtype != ScalarTypeOf<Key>::value || (op.slot_num > 0) != slots) continue;
    with(op, [&](const auto& args) {
      if constexpr (std::is_same_v<std::decay_t<decltype(args)>, Args>) all.push_back(args);
    });
  }
  return all;
}

template <bool kSlots, class Key, class Visible>
void find_many(const OpContext& context, const Several<HashGet>& several) {
  using Args = Find<Key, Visible>;
  const std::vector<Args> all = alike<Args>(
      several, kSlots, Key{}, [](const HashGet& op, const auto& f) { with_find_of<Key>(op, f); });
  launch_many<Args>(context, HashGet::kSeveralName, all, dim3(kHashThreads),
                    &find_many_kernel<kSlots, Key, Visible>,
                    [](const Args& a) { return get_blocks(a.lookup.n); });
}

template <bool kSlots, class Key, class Rows>
void insert_many(const OpContext& context, const Several<HashGetInsert>& several) {
  using Args = Insert<Rows>;
  const std::vector<Args> all =
      alike<Args>(several, kSlots, Key{}, [](const HashGetInsert& op, const auto& f) {
        with_rows_of<Key>(op, [&](const auto& rows) {
          f(Insert<std::decay_t<decltype(rows)>>{rows, places_of(HashGetInsert::kName, op.index),
                                                 op.index.size() / 2,
                                                 static_cast<std::uint32_t>(op.keys.size())});
        });
      });
  launch_many<Args>(context, HashGetInsert::kSeveralName, all, dim3(kInsertThreads),
                    &insert_many_kernel<kSlots, Rows>,
                    [](const Args& a) { return insert_blocks(a.n); });
}

template <class Key>
void find_all(const OpContext& context, const Several<HashGet>& several) {
  find_many<false, Key, FirstRows>(context, several);
  find_many<true, Key, FirstRows>(context, several);
  find_many<false, Key, BornRows>(context, several);
  find_many<true, Key, BornRows>(context, several);
}

template <class Key>
void insert_all(const OpContext& context, const Several<HashGetInsert>& several) {
  insert_many<false, Key, NewRows<Key>>(context, several);
  insert_many<true, Key, NewRows<Key>>(context, several);
  insert_many<false, Key, ReusedRows<Key>>(context, several);
  insert_many<true, Key, ReusedRows<Key>>(context, several);
}

// Those that are hashed; the others have been run, each by itself.
template <class Op>
Several<Op> run_direct(const OpContext& context, const Several<Op>& all,
                       void (*kernel)(const OpContext&, const Op&)) {
  Several<Op> hashed;
  for (const Op& op : all.ops) {
    if (op.direct.empty()) {
      hashed.ops.push_back(op);
    } else {
      kernel(context, op);
    }
  }
  return hashed;
}

void hash_gets(const OpContext& context, const Several<HashGet>& all) {
  const Several<HashGet> several = run_direct(context, all, &hash_get);
  preset_many(context, several);
  find_all<std::uint32_t>(context, several);
  find_all<std::int64_t>(context, several);
}

void hash_get_inserts(const OpContext& context, const Several<HashGetInsert>& all) {
  const Several<HashGetInsert> several = run_direct(context, all, &hash_get_insert);
  preset_many(context, several);
  insert_all<std::uint32_t>(context, several);
  insert_all<std::int64_t>(context, several);
}

void hash_insert(const OpContext& context, const HashInsert& op) {
  preset(context, op.report, kReportedLost, 0);
  with_key_type(op.row_keys.dtype, [&]<class Key>(Key) {
    const KnownRows<Key> rows{op.row_keys.ptr<Key>(),
                              op.row_slots.empty() ? nullptr : op.row_slots.ptr<std::uint32_t>(),
                              words_of(op.report), static_cast<std::uint32_t>(op.first)};
    if (!op.direct.empty()) return launch_direct_insert(context, op, rows);
    launch_insert(context, HashInsert::kName, !op.row_slots.empty(), rows, op.index,
                  op.row_keys.size());
  });
}

const OpRegistration<HashClear> hash_clear_cuda{DeviceType::Cuda, &hash_clear};
const OpRegistration<HashGet> hash_get_cuda{DeviceType::Cuda, &hash_get};
const SeveralRegistration<HashGet> several_hash_get_cuda{DeviceType::Cuda, &hash_gets};
const OpRegistration<HashGetInsert> hash_get_insert_cuda{DeviceType::Cuda, &hash_get_insert};
const SeveralRegistration<HashGetInsert> several_hash_get_insert_cuda{DeviceType::Cuda,
                                                                      &hash_get_inserts};
const OpRegistration<HashInsert> hash_insert_cuda{DeviceType::Cuda, &hash_insert};

}  // namespace
}  // namespace hugectr::cuda
