// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "core/cuda/device/cublas_lt.hpp"
#include "core/cuda/ops/gemm.hpp"
#include "core/cuda/primitives/column_tiles.cuh"

namespace hugectr::cuda {
namespace {

// What is left when there is no product to take, or the library has no such end.
template <int kVec>
struct EndRows {
  Rows<float> c;
  Rows<const float> addend;
  const float* bias;
  float scale;
  bool relu;

  __device__ Pack<float, kVec> columns(std::size_t group) const {
    Pack<float, kVec> biases{};
    if (bias != nullptr) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) biases.v[i] = bias[group * kVec + i];
    }
    return biases;
  }
  __device__ void operator()(std::size_t row, std::size_t group,
                             const Pack<float, kVec>& biases) const {
    float* target = c.at(row, group * kVec);
    Pack<float, kVec> values{};
    if (scale != 0.0f) values = load_pack<kVec>(target);
    Pack<float, kVec> more{};
    if (addend.data != nullptr) more = load_pack<kVec>(addend.at(row, group * kVec));
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float value = scale * values.v[i] + more.v[i] + biases.v[i];
      values.v[i] = relu && value < 0.0f ? 0.0f : value;
    }
    store_pack<kVec>(target, values);
  }
};

template <int kVec>
void run_end(const OpContext& context, const GemmArgs& g, float scale, const ProductEnd& end) {
  for_each_row(
      context, "gemm end", g.m, g.n / kVec,
      EndRows<kVec>{{g.c, g.c_stride}, {end.addend, end.addend_stride}, end.bias, scale, end.relu});
}

// c = relu(scale * c + addend + bias); scale 0 does not read c.
void end_product(const OpContext& context, const GemmArgs& g, float scale, const ProductEnd& end) {
  if (scale == 1.0f && end.bias == nullptr && end.addend == nullptr && !end.relu) return;
  const bool packs = matrix_allows_16_bytes(g.c, g.c_stride, g.m, g.n) &&
                     matrix_allows_16_bytes(end.addend, end.addend_stride, g.m, g.n);
  packs ? run_end<4>(context, g, scale, end) : run_end<1>(context, g, scale, end);
}

// A matrix as it is stored: the library's columns are our rows.
struct Stored {
  const float* data;
  std::size_t rows, row_size, stride;
  std::uint64_t leading_dimension() const {
    return std::max({stride, row_size, std::size_t{1}});  // one row may have any stride
  }
  std::uint32_t alignment() const {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    return address % 16 == 0 ? 16 : address % 8 == 0 ? 8 : 4;
  }
};

class Layout {
 public:
  Layout(const CublasLt& lt, const Stored& matrix) : lt_(lt) {
    HCTR_TRY(lt.matrixLayoutCreate(&layout_, CUDA_R_32F, matrix.row_size, matrix.rows,
                                   static_cast<std::int64_t>(matrix.leading_dimension())));
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
  explicit Description(const CublasLt& lt) : lt_(lt) {
    HCTR_TRY(lt.matmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
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

// c^T = op(b)^T op(a)^T, column-major: the library's A is our b. Its source C and its result D are
// both our c, unless there is an addend.
class Product {
 public:
  Product(const OpContext& context, const GemmArgs& g, const ProductEnd& end)
      : context_(context),
        lt_(cublas_lt(context)),
        alpha_(g.alpha),
        beta_(end.addend != nullptr ? 1.0f : g.beta),
        a_{g.b, g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n, g.b_stride},
        b_{g.a, g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k, g.a_stride},
        c_{end.addend != nullptr ? end.addend : g.c, g.m, g.n,
           end.addend != nullptr ? end.addend_stride : g.c_stride},
        d_{g.c, g.m, g.n, g.c_stride},
        target_(g.c),
        a_layout_(lt_, a_),
        b_layout_(lt_, b_),
        c_layout_(lt_, c_),
        d_layout_(lt_, d_),
        description_(lt_) {
    const std::int32_t operations[] = {g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                                       g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N};
    description_.set(CUBLASLT_MATMUL_DESC_TRANSA, operations[0]);
    description_.set(CUBLASLT_MATMUL_DESC_TRANSB, operations[1]);
    std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    if (end.bias != nullptr) {
      epilogue = end.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
      description_.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, end.bias);
    } else if (end.relu) {
      epilogue = CUBLASLT_EPILOGUE_RELU;
    }
    description_.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    const Stored bias{end.bias, 1, g.n, g.n};
    key_ = {static_cast<std::uint64_t>(context.device.index),
            static_cast<std::uint64_t>(operations[0]),
            static_cast<std::uint64_t>(operations[1]),
            g.m,
            g.n,
            g.k,
            a_.leading_dimension(),
            b_.leading_dimension(),
            c_.leading_dimension(),
            d_.leading_dimension(),
            epilogue,
            bias.alignment(),
            a_.alignment(),
            b_.alignment(),
            c_.alignment(),
            d_.alignment(),
            end.addend != nullptr};
  }

  // False when the library has no algorithm for it; nothing was launched then.
  bool launch() {
    const std::optional<cublasLtMatmulAlgo_t> algorithm = remembered_algorithm();
    if (!algorithm) return false;
    HCTR_TRY(lt_.matmul(lt_.handle(), description_.get(), &alpha_, a_.data, a_layout_.get(),
                        b_.data, b_layout_.get(), &beta_, c_.data, c_layout_.get(), target_,
                        d_layout_.get(), &*algorithm, lt_.workspace(), lt_.workspace_bytes(),
                        native_stream(context_)));
    if (sync_every_launch()) HCTR_TRY(cudaStreamSynchronize(native_stream(context_)));
    return true;
  }

 private:
  using Key = std::array<std::uint64_t, 17>;

  std::optional<cublasLtMatmulAlgo_t> remembered_algorithm() {
    static std::mutex mutex;
    static std::map<Key, std::optional<cublasLtMatmulAlgo_t>> algorithms;
    const std::lock_guard lock(mutex);
    const auto found = algorithms.find(key_);
    if (found != algorithms.end()) return found->second;
    return algorithms.emplace(key_, choose_algorithm()).first->second;
  }

  // The library's first advice: a function of the problem and the GPU, so that the next run of the
  // process takes the same.
  std::optional<cublasLtMatmulAlgo_t> choose_algorithm() const {
    Preference preference(lt_);
    preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                   static_cast<std::uint64_t>(lt_.workspace_bytes()));
    preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                   static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                                              CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a_.alignment());
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b_.alignment());
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c_.alignment());
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d_.alignment());
    cublasLtMatmulHeuristicResult_t advice{};
    int count = 0;
    // An error here says that there is none: the caller has another way, or says so.
    const cublasStatus_t status = lt_.matmulAlgoGetHeuristic(
        lt_.handle(), description_.get(), a_layout_.get(), b_layout_.get(), c_layout_.get(),
        d_layout_.get(), preference.get(), 1, &advice, &count);
    if (status != CUBLAS_STATUS_SUCCESS || count < 1 || advice.state != CUBLAS_STATUS_SUCCESS) {
      return std::nullopt;
    }
    return advice.algo;
  }

  const OpContext& context_;
  CublasLt& lt_;
  float alpha_, beta_;
  Stored a_, b_, c_, d_;
  float* target_;
  Layout a_layout_, b_layout_, c_layout_, d_layout_;
  Description description_;
  Key key_{};
};

void gemm_kernel(const OpContext& context, const Gemm& op) {
  gemm(context, GemmArgs{.transpose_a = op.transpose_a,
                         .transpose_b = op.transpose_b,
                         .m = op.c.shape[0],
                         .n = op.c.shape[1],
                         .k = op.a.shape[op.transpose_a ? 0 : 1],
                         .alpha = static_cast<float>(op.alpha),
                         .a = op.a.ptr<float>(),
                         .a_stride = op.a.row_stride,
                         .b = op.b.ptr<float>(),
                         .b_stride = op.b.row_stride,
                         .beta = static_cast<float>(op.beta),
                         .c = op.c.ptr<float>(),
                         .c_stride = op.c.row_stride});
}

const OpRegistration<Gemm> gemm_cuda{DeviceType::Cuda, &gemm_kernel};

}  // namespace

void gemm(const OpContext& context, const GemmArgs& g, const ProductEnd& end) {
  if (g.m == 0 || g.n == 0) return;
  HCTR_CHECK(end.addend == nullptr || g.beta == 0.0f, "gemm: an addend needs beta 0");
  if (g.k == 0) return end_product(context, g, g.beta, end);
  if (Product(context, g, end).launch()) return;
  // Some ends do not go with some shapes: the end as a pass of its own.
  const ProductEnd plain{.addend = end.addend, .addend_stride = end.addend_stride};
  if (!Product(context, g, plain).launch()) {
    throw DeviceError(concat("gemm: cuBLASLt has no algorithm for float32 m ", g.m, ", n ", g.n,
                             ", k ", g.k, " with row strides ", g.a_stride, ", ", g.b_stride, ", ",
                             g.c_stride, "; make the row strides smaller or update cuBLASLt"));
  }
  end_product(context, g, 1.0f, {.bias = end.bias, .relu = end.relu});
}

}  // namespace hugectr::cuda
