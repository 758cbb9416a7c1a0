// dropout: x -> y = x * mask, mask. random_normal: x -> numbers of the standard normal
// distribution. Element i of dropout has the bits of dropout_cpu.cc. Elements 2 j and 2 j + 1 of
// random_normal are the pair of Box and Muller of the words a = 2 (j % 2) and b = a + 1 of the same
// Philox block j / 2:
//
//   sqrt(-2 log((a + 1/2) / 2^32)) * (cos(2 pi b / 2^32), sin(2 pi b / 2^32))
//
// These functions consist of operations that IEEE 754 defines exactly, and this library is built
// without fused ones, so the numbers are the same on every machine. A float32 value is the rounded
// float64 value. One thread per Philox block, which makes four elements.
#include <cmath>

#include "common/kernels/exact_math.h"
#include "common/kernels/grid/grid.h"
#include "common/kernels/philox.h"

namespace cohort::COHORT_GRID {
namespace {

COHORT_HD inline int64_t PhiloxBlocks(int64_t elements) { return (elements + 3) / 4; }

template <typename T>
struct DropoutBody {
  const T* x;
  T* y;
  T* mask;
  T scale;
  uint32_t threshold;
  PhiloxStream random;
  int64_t n;

  COHORT_HD int64_t items() const { return PhiloxBlocks(n); }
  COHORT_HD void operator()(int64_t block) const {
    uint32_t words[4];
    random.Block(block, words);
    for (int64_t j = 0, i = 4 * block; j < 4 && i < n; ++j, ++i) {
      const T factor = (words[j] >> 8) >= threshold ? scale : T{0};
      mask[i] = factor;
      y[i] = x[i] * factor;
    }
  }
};

template <typename T>
struct RandomNormalBody {
  T* y;
  PhiloxStream random;
  int64_t n;

  COHORT_HD int64_t items() const { return PhiloxBlocks(n); }
  COHORT_HD int64_t work() const { return 64; }
  COHORT_HD void operator()(int64_t block) const {
    uint32_t words[4];
    random.Block(block, words);
    for (int64_t j = 0, i = 4 * block; j < 4 && i < n; j += 2, i += 2) {
      const double u = (static_cast<double>(words[j]) + 0.5) * 0x1p-32;
      const double radius = std::sqrt(-2 * ExactLog(u));
      double cosine, sine;
      ExactCosSin(words[j + 1], &cosine, &sine);
      y[i] = static_cast<T>(radius * cosine);
      if (i + 1 < n) y[i + 1] = static_cast<T>(radius * sine);
    }
  }
};

}  // namespace

DeviceKernelOr CreateRandom(const Node& node, const Program& program) {
  const ValueType& x = program.type(node.inputs[0]);
  const int64_t most = CapacityElements(x);
  if (most > int64_t{1} << 34) {
    return Unimplemented("{} of {}: more than 2^34 elements", node.op, TypeToString(x));
  }
  // Examples of other devices that come before these drew whole blocks: their number is a multiple
  // of 4.
  const int64_t unit =
      !x.dims.empty() && x.dims[0].bounded()
          ? most / program.symbols[static_cast<size_t>(x.dims[0].symbol - 1)].capacity
          : 0;
  const auto seed = static_cast<uint64_t>(IntAttr(node, "seed"));
  const auto number = static_cast<uint64_t>(IntAttr(node, "number"));
  return GridForFloating(node, x.dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    if (node.op == "random_normal") {
      return MakeGridKernel(
          PhiloxBlocks(most),
          [seed, number, unit](const KernelContext& c) {
            return RandomNormalBody<T>{
                c.out().as<T>(),
                PhiloxStream::Of(*c.random, seed, number, c.first_example * unit / 4),
                c.out().elements};
          },
          {.dims_only = 1, .is_random = true});
    }
    const double rate = FloatAttr(node, "rate");
    const T scale = static_cast<T>(1 / (1 - rate));
    const auto threshold = static_cast<uint32_t>(std::min(rate * 0x1p24 + 0.5, 0x1p24));
    return MakeGridKernel(
        PhiloxBlocks(most),
        [seed, number, unit, scale, threshold](const KernelContext& c) {
          return DropoutBody<T>{
              c.in(0).as<T>(),
              c.out(0).as<T>(),
              c.out(1).as<T>(),
              scale,
              threshold,
              PhiloxStream::Of(*c.random, seed, number, c.first_example * unit / 4),
              c.in(0).elements};
        },
        {.in_place = 1, .is_random = true});
  });
}

}  // namespace cohort::COHORT_GRID
