// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "core/cpp/ops/elementwise/activations.hpp"
#include "core/cuda/primitives/real.cuh"

namespace hugectr {
namespace {

using cuda::Operand;

template <class Entry, class T>
struct Forward {
  Entry entry;
  __device__ T operator()(T x) const {
    constexpr bool approximate =
        !std::is_same_v<T, float> && requires(const Entry e) { e.forward_in_16_bits(0.0f); };
    if constexpr (approximate) {
      return cuda::narrow<T>(entry.forward_in_16_bits(cuda::widen(x)));
    } else {
      return cuda::narrow<T>(entry.forward(cuda::widen(x)));
    }
  }
};

template <class Entry, class T>
struct Backward {
  Entry entry;
  __device__ T operator()(T y, T dy) const {
    return cuda::narrow<T>(entry.backward(cuda::widen(y), cuda::widen(dy)));
  }
};

template <class Entry>
void forward_kernel(const OpContext& ctx, const ActivationFwd<Entry>& op) {
  cuda::with_real_type(op.x.dtype, [&]<class T>(T) {
    cuda::map_rows(ctx, op.kName, Forward<Entry, T>{op.entry}, Operand<T>{op.y}, Operand<T>{op.x});
  });
}

template <class Entry>
void backward_kernel(const OpContext& ctx, const ActivationBwd<Entry>& op) {
  cuda::with_real_type(op.y.dtype, [&]<class T>(T) {
    cuda::map_rows(ctx, op.kName, Backward<Entry, T>{op.entry}, Operand<T>{op.dx}, Operand<T>{op.y},
                   Operand<T>{op.dy});
  });
}

template <class Entry>
struct OnCuda {
  OpRegistration<ActivationFwd<Entry>> forward{DeviceType::Cuda, &forward_kernel<Entry>};
  OpRegistration<ActivationBwd<Entry>> backward{DeviceType::Cuda, &backward_kernel<Entry>};
};
const OfEach<OnCuda, Activations> on_cuda;

}  // namespace
}  // namespace hugectr
