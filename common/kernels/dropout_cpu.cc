// dropout: x -> y = x * mask, mask (0 with probability `rate`, else 1 / (1 - rate)).
//
// Element i takes word i % 4 of the Philox block with counter {i / 4, ordinal, place} and a key
// made of the job's seed, the op's `seed` and its `number`; it is kept if the word's upper 24 bits,
// as a fraction of 2^24, are at least `rate`. So a mask depends on no worker and no attempt, and
// float32 and float64 have the same one.
#include <algorithm>

#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/float_math.h"

namespace cohort {
namespace {

constexpr int64_t kChunkBlocks = 128;
constexpr int64_t kChunk = 4 * kChunkBlocks;

template <typename T>
class DropoutKernel : public Kernel {
 public:
  DropoutKernel(double rate, uint64_t seed, uint64_t number)
      : scale_(static_cast<T>(1 / (1 - rate))),
        threshold_(static_cast<uint32_t>(std::min(rate * 0x1p24 + 0.5, 0x1p24))),
        seed_(seed),
        number_(number) {}

  absl::Status Run(const KernelContext& c) const override {
    const RandomKey& random = *c.random;
    const PhiloxKey key = PhiloxKeyOf(PhiloxMix(PhiloxMix(random.seed, seed_), number_));
    const PhiloxBlock counter = {0, random.ordinal, static_cast<uint32_t>(random.place),
                                 static_cast<uint32_t>(random.place >> 32)};
    const int64_t n = c.in(0).elements;
    const int64_t chunks = (n + kChunk - 1) / kChunk;
    c.pool->ParallelFor(chunks, kElementGrain / 4 / kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) RunChunk(c, counter, key, chunk, n);
    });
    return absl::OkStatus();
  }
  bool in_place(size_t) const override { return true; }

 private:
  void RunChunk(const KernelContext& c, PhiloxBlock counter, PhiloxKey key, int64_t chunk,
                int64_t n) const {
    alignas(64) uint32_t words[kChunk];
    const int64_t first = chunk * kChunk;
    const int64_t count = std::min(kChunk, n - first);
    counter[0] = static_cast<uint32_t>(chunk * kChunkBlocks);
    PhiloxWords(counter, key, (count + 3) / 4, words);
    const T* x = c.in(0).as<T>() + first;
    T* y = c.out(0).as<T>() + first;
    T* mask = c.out(1).as<T>() + first;
    // Locals, which no write to the mask can change, let the compiler make vector code.
    const T scale = scale_;
    const uint32_t threshold = threshold_;
    for (int64_t i = 0; i < count; ++i) mask[i] = (words[i] >> 8) >= threshold ? scale : T{0};
    for (int64_t i = 0; i < count; ++i) y[i] = x[i] * mask[i];
  }

  const T scale_;
  const uint32_t threshold_;
  const uint64_t seed_;
  const uint64_t number_;
};

}  // namespace

KernelOr CreateDropoutCpu(const Node& node, const Program& program) {
  const ValueType& x = program.type(node.inputs[0]);
  if (CapacityElements(x) > int64_t{1} << 34) {
    return Unimplemented("dropout of {}: more than 2^34 elements", TypeToString(x));
  }
  return ForFloating(node, x.dtype, [&](auto t) -> KernelOr {
    return std::make_unique<DropoutKernel<decltype(t)>>(
        FloatAttr(node, "rate"), static_cast<uint64_t>(IntAttr(node, "seed")),
        static_cast<uint64_t>(IntAttr(node, "number")));
  });
}

}  // namespace cohort
