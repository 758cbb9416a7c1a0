#ifndef COHORT_COMMON_GRAPH_OPS_CONVOLUTION_H_
#define COHORT_COMMON_GRAPH_OPS_CONVOLUTION_H_

#include <absl/status/statusor.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/graph/program.h"

namespace cohort::ops {

// A convolution along one spatial axis.
struct ConvAxis {
  int64_t in = 0;        // elements of the input
  int64_t out = 0;       // elements of the output
  int64_t taps = 0;      // elements of the kernel
  int64_t stride = 1;    // elements between the starts of two windows
  int64_t dilation = 1;  // elements between two taps
  int64_t before = 0;    // padding in front of the first element, zeros
  int64_t after = 0;     // padding after the last element, zeros

  // The place in the input that `tap` of the window of output `o` covers; outside of [0, in): zero.
  int64_t place(int64_t o, int64_t tap) const { return o * stride - before + tap * dilation; }
  // The outputs for which `tap` covers an element of the input are [first(tap), last(tap)).
  int64_t first(int64_t tap) const {
    return std::min(out, CeilDivide(std::max<int64_t>(before - tap * dilation, 0), stride));
  }
  int64_t last(int64_t tap) const {
    const int64_t end = in + before - tap * dilation;  // o * stride < end
    return end <= 0 ? first(tap) : std::max(first(tap), std::min(out, CeilDivide(end, stride)));
  }

 private:
  static int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }
};

// The shapes of one example in a two-dimensional convolution, channels last: x[in, in,
// in_channels], kernel[taps, taps, in_channels / groups, out_channels] -> y[out, out,
// out_channels]. Output channel o belongs to group o / (out_channels / groups) and sees the inputs
// of that group only.
struct ConvShape {
  std::array<ConvAxis, 2> axes;  // rows, columns
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t groups = 1;

  int64_t in_elements() const { return axes[0].in * axes[1].in * in_channels; }
  int64_t out_elements() const { return axes[0].out * axes[1].out * out_channels; }
  int64_t kernel_elements() const {
    return axes[0].taps * axes[1].taps * (in_channels / groups) * out_channels;
  }
};

// The shape of a node conv2d, conv2d_input_grad or conv2d_kernel_grad. Errors: InvalidArgument that
// names the attribute or the input.
absl::StatusOr<ConvShape> MakeConvShape(const Node& node, const ValueType& first,
                                        const ValueType& second);

}  // namespace cohort::ops

#endif  // COHORT_COMMON_GRAPH_OPS_CONVOLUTION_H_
