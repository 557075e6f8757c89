// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <library_types.h>

#include <cstddef>
#include <cstdint>

struct CUstream_st;
struct cublasLtContext;

/// What this project uses of the C interface of cuBLASLt 13, under the library's own names. It is
/// declared here because the library is opened at run time: a build needs no cuBLAS.
namespace hugectr::cuda {

using cublasLtHandle_t = cublasLtContext*;

enum cublasStatus_t : int { CUBLAS_STATUS_SUCCESS = 0 };

enum cublasOperation_t : int { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };

enum cublasComputeType_t : int {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};

enum cublasLtOrder_t : int { CUBLASLT_ORDER_COL = 0, CUBLASLT_ORDER_ROW = 1 };

enum cublasLtMatrixLayoutAttribute_t : int {
  CUBLASLT_MATRIX_LAYOUT_TYPE = 0,                  ///< uint32
  CUBLASLT_MATRIX_LAYOUT_ORDER = 1,                 ///< int32, cublasLtOrder_t
  CUBLASLT_MATRIX_LAYOUT_ROWS = 2,                  ///< uint64
  CUBLASLT_MATRIX_LAYOUT_COLS = 3,                  ///< uint64
  CUBLASLT_MATRIX_LAYOUT_LD = 4,                    ///< int64
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,           ///< int32
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,  ///< int64
};

enum cublasLtMatmulDescAttributes_t : int {
  CUBLASLT_MATMUL_DESC_COMPUTE_TYPE = 0,             ///< int32
  CUBLASLT_MATMUL_DESC_SCALE_TYPE = 1,               ///< int32, cudaDataType_t
  CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,             ///< int32
  CUBLASLT_MATMUL_DESC_TRANSA = 3,                   ///< int32, cublasOperation_t
  CUBLASLT_MATMUL_DESC_TRANSB = 4,                   ///< int32, cublasOperation_t
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,                 ///< uint32, cublasLtEpilogue_t
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,             ///< void*
  CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE = 10,       ///< int64
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,    ///< void*
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,         ///< int64
  CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,         ///< const float*, on the device; fp8
  CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,         ///< the same
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE = 22,  ///< int32, cudaDataType_t
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,          ///< int32, cudaDataType_t
};

enum cublasLtEpilogue_t : int {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_RELU = 2,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_RELU_BIAS = 2 | 4,
  CUBLASLT_EPILOGUE_RELU_AUX = 2 | 128,
  CUBLASLT_EPILOGUE_RELU_AUX_BIAS = 2 | 4 | 128,
  CUBLASLT_EPILOGUE_DRELU = 8 | 128,
  CUBLASLT_EPILOGUE_DRELU_BGRAD = 8 | 16 | 128,
  CUBLASLT_EPILOGUE_BGRADA = 256,
  CUBLASLT_EPILOGUE_BGRADB = 512,
};

enum cublasLtMatmulPreferenceAttributes_t : int {
  CUBLASLT_MATMUL_PREF_SEARCH_MODE = 0,            ///< uint32
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,    ///< uint64
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,  ///< uint32
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,  ///< uint32
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,  ///< uint32
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,  ///< uint32
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,  ///< uint32
};

/// Bits of CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: how split-K parts are added up.
enum cublasLtReductionScheme_t : int {
  CUBLASLT_REDUCTION_SCHEME_NONE = 0,
  CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,  ///< atomics: not the same bits in every run
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
  CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE = 4,
};

enum cublasLtMatmulAlgoConfigAttributes_t : int {
  CUBLASLT_ALGO_CONFIG_SPLITK_NUM = 2,        ///< uint32
  CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME = 3,  ///< uint32
};

struct cublasLtMatrixLayoutOpaque_t;
struct cublasLtMatmulDescOpaque_t;
struct cublasLtMatmulPreferenceOpaque_t;
using cublasLtMatrixLayout_t = cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulDesc_t = cublasLtMatmulDescOpaque_t*;
using cublasLtMatmulPreference_t = cublasLtMatmulPreferenceOpaque_t*;

struct cublasLtMatmulAlgo_t {
  std::uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96, "layout of the library");

/// The functions; each is named as in the library without its prefix cublasLt.
struct CublasLtApi {
  cublasStatus_t (*create)(cublasLtHandle_t*);
  cublasStatus_t (*destroy)(cublasLtHandle_t);
  const char* (*getStatusName)(cublasStatus_t);
  const char* (*getStatusString)(cublasStatus_t);
  std::size_t (*getVersion)();
  cublasStatus_t (*matmul)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void* alpha, const void* a,
                           cublasLtMatrixLayout_t, const void* b, cublasLtMatrixLayout_t,
                           const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                           cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void* workspace,
                           std::size_t workspace_bytes, CUstream_st*);
  cublasStatus_t (*matmulDescCreate)(cublasLtMatmulDesc_t*, cublasComputeType_t, cudaDataType_t);
  cublasStatus_t (*matmulDescDestroy)(cublasLtMatmulDesc_t);
  cublasStatus_t (*matmulDescSetAttribute)(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t,
                                           const void*, std::size_t);
  cublasStatus_t (*matrixLayoutCreate)(cublasLtMatrixLayout_t*, cudaDataType_t, std::uint64_t rows,
                                       std::uint64_t columns, std::int64_t leading_dimension);
  cublasStatus_t (*matrixLayoutDestroy)(cublasLtMatrixLayout_t);
  cublasStatus_t (*matrixLayoutSetAttribute)(cublasLtMatrixLayout_t,
                                             cublasLtMatrixLayoutAttribute_t, const void*,
                                             std::size_t);
  cublasStatus_t (*matmulPreferenceCreate)(cublasLtMatmulPreference_t*);
  cublasStatus_t (*matmulPreferenceDestroy)(cublasLtMatmulPreference_t);
  cublasStatus_t (*matmulPreferenceSetAttribute)(cublasLtMatmulPreference_t,
                                                 cublasLtMatmulPreferenceAttributes_t, const void*,
                                                 std::size_t);
  cublasStatus_t (*matmulAlgoGetHeuristic)(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                           cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                           cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                           cublasLtMatmulPreference_t, int requested,
                                           cublasLtMatmulHeuristicResult_t*, int* found);
  cublasStatus_t (*matmulAlgoConfigGetAttribute)(const cublasLtMatmulAlgo_t*,
                                                 cublasLtMatmulAlgoConfigAttributes_t, void*,
                                                 std::size_t, std::size_t* written);
};

}  // namespace hugectr::cuda
