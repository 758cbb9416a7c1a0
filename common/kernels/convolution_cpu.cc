// conv2d: x[n, rows, columns, c], kernel[taps, taps, c / groups, o] -> y[n, rows, columns, o].
// conv2d_input_grad: (grad like y, kernel) -> like x. conv2d_kernel_grad: (x, grad) -> like kernel.
//
// float32 by oneDNN (convolution_onednn.cc), or for images of few channels patch_convolution.h. The
// loops of this file are the specification, and compute float64. Each element of a result is summed
// by one thread in one order.
#include <algorithm>

#include "common/base/thread_pool.h"
#include "common/kernels/convolution.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/patch_convolution.h"

namespace cohort {
namespace {

using ops::ConvAxis;
using ops::ConvShape;

constexpr int64_t kConvGrain = 1 << 18;  // multiplications below which work is not split

// Calls fn(tap, place in the input) for the taps of output `o` that cover the input.
template <typename Fn>
void ForEachTap(const ConvAxis& axis, int64_t o, const Fn& fn) {
  for (int64_t tap = 0; tap < axis.taps; ++tap) {
    const int64_t place = axis.place(o, tap);
    if (place >= 0 && place < axis.in) fn(tap, place);
  }
}

// Calls fn(tap, pixel of the input) for output (row, column); taps and pixels are numbered by rows.
template <typename Fn>
void ForEachPixelTap(const ConvShape& s, int64_t row, int64_t column, const Fn& fn) {
  ForEachTap(s.axes[0], row, [&](int64_t tap_row, int64_t y) {
    ForEachTap(s.axes[1], column, [&](int64_t tap_column, int64_t x) {
      fn(tap_row * s.axes[1].taps + tap_column, y * s.axes[1].in + x);
    });
  });
}

// y += a b, element by element, and y += a b of a scalar a.
template <typename T>
void AddProducts(const T* __restrict a, const T* __restrict b, T* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += a[i] * b[i];
}
template <typename T>
void AddScaled(T a, const T* __restrict b, T* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += a * b[i];
}

// to[group's outputs] += from[group's inputs] matrix[inputs per group, all outputs].
template <typename T>
void AddGrouped(const T* from, const T* matrix, T* to, int64_t groups, int64_t inputs,
                int64_t outputs) {
  if (inputs == 1 && outputs == 1) return AddProducts(from, matrix, to, groups);
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t i = 0; i < inputs; ++i) {
      AddScaled(from[g * inputs + i], matrix + i * groups * outputs + g * outputs, to + g * outputs,
                outputs);
    }
  }
}

template <typename T>
class ConvolutionKernel : public Kernel {
 public:
  ConvolutionKernel(ConvKind kind, const ConvShape& shape) : kind_(kind), s_(shape) {}

  absl::Status Run(const KernelContext& c) const override {
    switch (kind_) {
      case ConvKind::kForward:
        Forward(c);
        break;
      case ConvKind::kInputGrad:
        InputGrad(c);
        break;
      case ConvKind::kKernelGrad:
        KernelGrad(c);
        break;
    }
    return absl::OkStatus();
  }

  // The kernel with the inputs and outputs of each group exchanged.
  size_t scratch_bytes() const override {
    return kind_ == ConvKind::kInputGrad ? static_cast<size_t>(s_.kernel_elements()) * sizeof(T)
                                         : 0;
  }

 private:
  int64_t taps() const { return s_.axes[0].taps * s_.axes[1].taps; }
  int64_t group_in() const { return s_.in_channels / s_.groups; }
  int64_t group_out() const { return s_.out_channels / s_.groups; }
  int64_t tap_elements() const { return group_in() * s_.out_channels; }

  void Forward(const KernelContext& c) const {
    const T* x = c.in(0).as<T>();
    const T* kernel = c.in(1).as<T>();
    T* y = c.out().as<T>();
    const int64_t rows = s_.axes[0].out, columns = s_.axes[1].out;
    const int64_t grain = RowGrain(columns * s_.kernel_elements(), kConvGrain);
    c.pool->ParallelFor(c.in(0).dims[0] * rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* image = x + r / rows * s_.in_elements();
        for (int64_t column = 0; column < columns; ++column) {
          T* to = y + (r * columns + column) * s_.out_channels;
          std::fill_n(to, s_.out_channels, T{0});
          ForEachPixelTap(s_, r % rows, column, [&](int64_t tap, int64_t pixel) {
            AddGrouped(image + pixel * s_.in_channels, kernel + tap * tap_elements(), to, s_.groups,
                       group_in(), group_out());
          });
        }
      }
    });
  }

  // [tap, inputs, groups, outputs] -> [tap, outputs, groups, inputs].
  void ExchangeChannels(const T* kernel, T* to) const {
    for (int64_t tap = 0; tap < taps(); ++tap, kernel += tap_elements(), to += tap_elements()) {
      for (int64_t i = 0; i < group_in(); ++i) {
        for (int64_t g = 0; g < s_.groups; ++g) {
          for (int64_t o = 0; o < group_out(); ++o) {
            to[(o * s_.groups + g) * group_in() + i] =
                kernel[i * s_.out_channels + g * group_out() + o];
          }
        }
      }
    }
  }

  void InputGrad(const KernelContext& c) const {
    const T* grad = c.in(0).as<T>();
    T* x = c.out().as<T>();
    T* kernel = reinterpret_cast<T*>(c.scratch);
    ExchangeChannels(c.in(1).as<T>(), kernel);
    c.pool->ParallelFor(c.in(0).dims[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        T* image = x + n * s_.in_elements();
        const T* from = grad + n * s_.out_elements();
        std::fill_n(image, s_.in_elements(), T{0});
        for (int64_t row = 0; row < s_.axes[0].out; ++row) {
          for (int64_t column = 0; column < s_.axes[1].out; ++column, from += s_.out_channels) {
            ForEachPixelTap(s_, row, column, [&](int64_t tap, int64_t pixel) {
              AddGrouped(from, kernel + tap * tap_elements(), image + pixel * s_.in_channels,
                         s_.groups, group_out(), group_in());
            });
          }
        }
      }
    });
  }

  // Each row [tap, input of the group] of the kernel is a sum over all pixels.
  void KernelGrad(const KernelContext& c) const {
    T* kernel = c.out().as<T>();
    const int64_t images = c.in(0).dims[0];
    const int64_t work = images * s_.out_elements();
    c.pool->ParallelFor(taps() * group_in(), RowGrain(work, kConvGrain),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t row = begin; row < end; ++row) {
                            KernelRow(c, row / group_in(), row % group_in(), images,
                                      kernel + row * s_.out_channels);
                          }
                        });
  }

  void KernelRow(const KernelContext& c, int64_t tap, int64_t input, int64_t images, T* to) const {
    const ConvAxis &rows = s_.axes[0], &columns = s_.axes[1];
    const int64_t tap_row = tap / columns.taps, tap_column = tap % columns.taps;
    std::fill_n(to, s_.out_channels, T{0});
    for (int64_t n = 0; n < images; ++n) {
      const T* image = c.in(0).as<T>() + n * s_.in_elements();
      const T* grad = c.in(1).as<T>() + n * s_.out_elements();
      for (int64_t row = rows.first(tap_row); row < rows.last(tap_row); ++row) {
        for (int64_t col = columns.first(tap_column); col < columns.last(tap_column); ++col) {
          const int64_t pixel =
              rows.place(row, tap_row) * columns.in + columns.place(col, tap_column);
          const T* from = image + pixel * s_.in_channels + input;
          const T* g = grad + (row * columns.out + col) * s_.out_channels;
          if (group_in() == 1 && group_out() == 1) {
            AddProducts(from, g, to, s_.groups);
            continue;
          }
          for (int64_t group = 0; group < s_.groups; ++group) {
            AddScaled(from[group * group_in()], g + group * group_out(), to + group * group_out(),
                      group_out());
          }
        }
      }
    }
  }

  const ConvKind kind_;
  const ConvShape s_;
};

}  // namespace

KernelOr CreateConvolutionCpu(const Node& node, const Program& program) {
  const ValueType& first = program.type(node.inputs[0]);
  COHORT_ASSIGN_OR_RETURN(const ConvShape shape,
                          ops::MakeConvShape(node, first, program.type(node.inputs[1])));
  const ConvKind kind = node.op == "conv2d"              ? ConvKind::kForward
                        : node.op == "conv2d_input_grad" ? ConvKind::kInputGrad
                                                         : ConvKind::kKernelGrad;
  if (first.dtype == DType::kFloat32) {
    if (kind != ConvKind::kInputGrad && HasSmallPatches(shape)) {
      return MakePatchConvolution(kind, shape, first.dims[0].size);
    }
    return MakeOneDnnConvolution(kind, shape, first.dims[0].size);
  }
  if (first.dtype != DType::kFloat64) return NoKernelFor(node, first.dtype);
  return std::make_unique<ConvolutionKernel<double>>(kind, shape);
}

}  // namespace cohort
