// random_normal: x -> numbers of the standard normal distribution, of x's type.
//
// Elements 2 j and 2 j + 1 are the pair of Box and Muller of the words a = 2 (j % 2) and b = a + 1 of
// the Philox block j / 2, whose counter and key are those of dropout_cpu.cc:
//
//   sqrt(-2 log((a + 1/2) / 2^32)) * (cos(2 pi b / 2^32), sin(2 pi b / 2^32))
//
// The functions below consist of operations that IEEE 754 defines exactly, and this library is built
// without fused ones, so the numbers are the same on every machine. A float32 value is the rounded
// float64 value.
#include <algorithm>
#include <cmath>

#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/exact_math.h"
#include "common/kernels/float_math.h"

namespace cohort {
namespace {

constexpr int64_t kNormalBlocks = 64;
constexpr int64_t kNormalChunk = 4 * kNormalBlocks;

template <typename T>
class RandomNormalKernel : public Kernel {
 public:
  RandomNormalKernel(uint64_t seed, uint64_t number) : seed_(seed), number_(number) {}

  absl::Status Run(const KernelContext& c) const override {
    const RandomKey& random = *c.random;
    const PhiloxKey key = PhiloxKeyOf(PhiloxMix(PhiloxMix(random.seed, seed_), number_));
    const PhiloxBlock counter = {0, random.ordinal, static_cast<uint32_t>(random.place),
                                 static_cast<uint32_t>(random.place >> 32)};
    const int64_t n = c.out().elements;
    const int64_t chunks = (n + kNormalChunk - 1) / kNormalChunk;
    c.pool->ParallelFor(chunks, kElementGrain / 16 / kNormalChunk, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        RunChunk(c.out().as<T>() + chunk * kNormalChunk, counter, key, chunk,
                 std::min(kNormalChunk, n - chunk * kNormalChunk));
      }
    });
    return absl::OkStatus();
  }
  bool reads_data(size_t) const override { return false; }

 private:
  static void RunChunk(T* y, PhiloxBlock counter, PhiloxKey key, int64_t chunk, int64_t count) {
    alignas(64) uint32_t words[kNormalChunk];
    counter[0] = static_cast<uint32_t>(chunk * kNormalBlocks);
    PhiloxWords(counter, key, (count + 3) / 4, words);
    for (int64_t i = 0; i < count; i += 2) {
      const double u = (static_cast<double>(words[i]) + 0.5) * 0x1p-32;
      const double radius = std::sqrt(-2 * ExactLog(u));
      double cosine, sine;
      ExactCosSin(words[i + 1], &cosine, &sine);
      y[i] = static_cast<T>(radius * cosine);
      if (i + 1 < count) y[i + 1] = static_cast<T>(radius * sine);
    }
  }

  const uint64_t seed_;
  const uint64_t number_;
};

}  // namespace

KernelOr CreateRandomNormalCpu(const Node& node, const Program& program) {
  const ValueType& x = program.type(node.inputs[0]);
  if (CapacityElements(x) > int64_t{1} << 34) {
    return Unimplemented("random_normal of {}: more than 2^34 elements", TypeToString(x));
  }
  return ForFloating(node, x.dtype, [&](auto t) -> KernelOr {
    return std::make_unique<RandomNormalKernel<decltype(t)>>(
        static_cast<uint64_t>(IntAttr(node, "seed")),
        static_cast<uint64_t>(IntAttr(node, "number")));
  });
}

}  // namespace cohort
