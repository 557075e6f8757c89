// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/cublas_lt_matmul.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "core/cpp/base/error.hpp"
#include "core/cuda/device/algorithm_search.hpp"
#include "core/cuda/device/cublas_lt.hpp"
#include "core/cuda/device/launch.cuh"

namespace hugectr::cuda {
namespace {

constexpr int kCandidates = 8;  // of a search

cudaDataType_t type_of(const LtMatrix& matrix) {
  if (matrix.numbers != LtNumbers::OfDtype) {
    return matrix.numbers == LtNumbers::E4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
  }
  switch (matrix.dtype) {
    case TensorScalarType::Float32:
      return CUDA_R_32F;
    case TensorScalarType::Float16:
      return CUDA_R_16F;
    case TensorScalarType::BFloat16:
      return CUDA_R_16BF;
    default:
      throw InvalidArgument(concat("a matrix product of ", to_string(matrix.dtype)));
  }
}

std::uint64_t leading_dimension(const LtMatrix& matrix) {
  return std::max({matrix.stride, matrix.row_size, std::size_t{1}});  // one row: any stride
}

std::uint32_t alignment(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return address % 16 == 0 ? 16 : address % 8 == 0 ? 8 : address % 4 == 0 ? 4 : 2;
}

// The library's matrices are column-major: its columns are our rows.
class Layout {
 public:
  Layout(const CublasLt& lt, const LtMatrix& matrix) : lt_(lt) {
    HCTR_TRY(lt.matrixLayoutCreate(&layout_, type_of(matrix), matrix.row_size, matrix.rows,
                                   static_cast<std::int64_t>(leading_dimension(matrix))));
  }
  ~Layout() { HCTR_TRY_NOTHROW(lt_.matrixLayoutDestroy(layout_)); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  const CublasLt& lt_;
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class Description {
 public:
  Description(const CublasLt& lt, cublasComputeType_t compute) : lt_(lt) {
    HCTR_TRY(lt.matmulDescCreate(&description_, compute, CUDA_R_32F));
  }
  ~Description() { HCTR_TRY_NOTHROW(lt_.matmulDescDestroy(description_)); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    HCTR_TRY(lt_.matmulDescSetAttribute(description_, attribute, &value, sizeof(value)));
  }
  cublasLtMatmulDesc_t get() const { return description_; }

 private:
  const CublasLt& lt_;
  cublasLtMatmulDesc_t description_ = nullptr;
};

class Preference {
 public:
  explicit Preference(const CublasLt& lt) : lt_(lt) {
    HCTR_TRY(lt.matmulPreferenceCreate(&preference_));
  }
  ~Preference() { HCTR_TRY_NOTHROW(lt_.matmulPreferenceDestroy(preference_)); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    HCTR_TRY(lt_.matmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)));
  }
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  const CublasLt& lt_;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

// d^T = op(b)^T op(a)^T in the library's order: its A is our b.
class Problem {
 public:
  Problem(const OpContext& context, const LtMatmul& matmul)
      : context_(context),
        lt_(cublas_lt(context)),
        matmul_(matmul),
        compute_(context.tf32 && matmul.a.dtype == TensorScalarType::Float32
                     ? CUBLAS_COMPUTE_32F_FAST_TF32
                     : CUBLAS_COMPUTE_32F),
        a_(lt_, matmul.b),
        b_(lt_, matmul.a),
        c_(lt_, matmul.c),
        d_(lt_, matmul.d),
        description_(lt_, compute_) {
    description_.set(CUBLASLT_MATMUL_DESC_TRANSA, operation(matmul.transpose_b));
    description_.set(CUBLASLT_MATMUL_DESC_TRANSB, operation(matmul.transpose_a));
    description_.set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(matmul.epilogue));
    if (matmul.bias != nullptr) {
      description_.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, matmul.bias);
    }
    if (matmul.b.scale != nullptr) {
      description_.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, matmul.b.scale);
    }
    if (matmul.a.scale != nullptr) {
      description_.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, matmul.a.scale);
    }
  }

  bool launch() {
    const std::optional<cublasLtMatmulAlgo_t> algorithm = remembered_algorithm();
    if (!algorithm) return false;
    HCTR_TRY(matmul(*algorithm, matmul_.d.data));
    if (sync_every_launch()) HCTR_TRY(cudaStreamSynchronize(native_stream(context_)));
    return true;
  }

 private:
  using Key = std::array<std::uint64_t, 23>;

  static std::int32_t operation(bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; }

  Key key() const {
    const LtMatmul& p = matmul_;
    return {static_cast<std::uint64_t>(context_.device.index),
            static_cast<std::uint64_t>(compute_),
            static_cast<std::uint64_t>(p.epilogue),
            p.transpose_a,
            p.transpose_b,
            p.d.rows,
            p.d.row_size,
            p.transpose_a ? p.a.rows : p.a.row_size,
            leading_dimension(p.a),
            leading_dimension(p.b),
            leading_dimension(p.c),
            leading_dimension(p.d),
            static_cast<std::uint64_t>(p.a.dtype),
            static_cast<std::uint64_t>(p.a.numbers),
            static_cast<std::uint64_t>(p.b.numbers),
            static_cast<std::uint64_t>(p.d.dtype),
            alignment(p.a.data),
            alignment(p.b.data),
            alignment(p.c.data),
            alignment(p.d.data),
            alignment(p.bias),
            p.c.data == p.d.data,
            p.beta == 0.0f};
  }

  std::optional<cublasLtMatmulAlgo_t> remembered_algorithm() {
    static std::mutex mutex;
    static std::map<Key, std::optional<cublasLtMatmulAlgo_t>> algorithms;
    const Key problem = key();
    {
      const std::lock_guard lock(mutex);
      const auto found = algorithms.find(problem);
      if (found != algorithms.end()) return found->second;
    }
    const bool search = context_.search_algorithms && may_search(context_);
    // Not with the lock held: a search waits for its stream, where a collective may wait for a
    // device whose thread stands at this lock. Two may search for the same problem then.
    const std::optional<cublasLtMatmulAlgo_t> chosen = choose_algorithm(search);
    // In a capture nothing can be timed: the next call outside of it may.
    if (search != context_.search_algorithms && chosen) return chosen;
    const std::lock_guard lock(mutex);
    return algorithms.emplace(problem, chosen).first->second;
  }

  // The library's first advice: a function of the problem and the GPU, so that the next run of the
  // process takes the same. A search takes the fastest of those that give the same bits.
  std::optional<cublasLtMatmulAlgo_t> choose_algorithm(bool search) {
    const std::vector<cublasLtMatmulAlgo_t> candidates = advice(search ? kCandidates : 1);
    if (candidates.empty()) return std::nullopt;
    const LtMatrix& d = matmul_.d;
    const std::size_t bytes = d.rows * leading_dimension(d) * size_of(d.dtype);
    return candidates[fastest_candidate(
        context_, candidates.size(), bytes, [&](std::size_t candidate, void* result) {
          return matmul(candidates[candidate], result) == CUBLAS_STATUS_SUCCESS;
        })];
  }

  std::vector<cublasLtMatmulAlgo_t> advice(int wanted) const {
    Preference preference(lt_);
    preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                   static_cast<std::uint64_t>(lt_.workspace_bytes()));
    preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                   static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                                              CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(matmul_.b.data));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(matmul_.a.data));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(matmul_.c.data));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(matmul_.d.data));
    std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
    int count = 0;
    // An error here says that there is none: the caller has another way, or says so.
    const cublasStatus_t status =
        lt_.matmulAlgoGetHeuristic(lt_.handle(), description_.get(), a_.get(), b_.get(), c_.get(),
                                   d_.get(), preference.get(), wanted, found.data(), &count);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    if (status != CUBLAS_STATUS_SUCCESS) return algorithms;
    for (int i = 0; i < count; ++i) {
      const auto& one = found[static_cast<std::size_t>(i)];
      if (one.state == CUBLAS_STATUS_SUCCESS && sums_alike(found[0].algo, one.algo)) {
        algorithms.push_back(one.algo);
      }
    }
    return algorithms;
  }

  // Whether two algorithms cut the sums in the same way.
  bool sums_alike(const cublasLtMatmulAlgo_t& a, const cublasLtMatmulAlgo_t& b) const {
    for (const auto attribute :
         {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME}) {
      std::array<std::uint32_t, 2> values{};
      std::size_t written = 0;
      HCTR_TRY(lt_.matmulAlgoConfigGetAttribute(&a, attribute, &values[0], sizeof(std::uint32_t),
                                                &written));
      HCTR_TRY(lt_.matmulAlgoConfigGetAttribute(&b, attribute, &values[1], sizeof(std::uint32_t),
                                                &written));
      if (values[0] != values[1]) return false;
    }
    return true;
  }

  cublasStatus_t matmul(const cublasLtMatmulAlgo_t& algorithm, void* result) const {
    return lt_.matmul(lt_.handle(), description_.get(), &matmul_.alpha, matmul_.b.data, a_.get(),
                      matmul_.a.data, b_.get(), &matmul_.beta, matmul_.c.data, c_.get(), result,
                      d_.get(), &algorithm, lt_.workspace(), lt_.workspace_bytes(),
                      native_stream(context_));
  }

  const OpContext& context_;
  CublasLt& lt_;
  const LtMatmul& matmul_;
  cublasComputeType_t compute_;
  Layout a_, b_, c_, d_;
  Description description_;
};

}  // namespace

bool try_matmul(const OpContext& context, const LtMatmul& matmul) {
  return Problem(context, matmul).launch();
}

}  // namespace hugectr::cuda
