#ifndef COHORT_COMMON_KERNELS_PHILOX_H_
#define COHORT_COMMON_KERNELS_PHILOX_H_

#include <cstdint>

#include "common/device/host_device.h"
#include "common/kernels/random_key.h"
#include "common/tensor/philox.h"

namespace cohort {

// The random words of one op in one step, for code of devices: Philox blocks with the counters
// {block, ordinal, place} and a key made of the job's seed, the op's `seed` and its `number`. The
// words are those of PhiloxWords. Plain arrays, because std::array has checks that exist on the CPU
// only.
struct PhiloxStream {
  uint32_t counter[3];  // words 1 to 3 of a block's counter; word 0 is the number of the block
  uint32_t key[2];
  uint32_t first = 0;  // the number of block 0

  static PhiloxStream Of(const RandomKey& random, uint64_t seed, uint64_t number, int64_t first) {
    const uint64_t key = PhiloxMix(PhiloxMix(random.seed, seed), number);
    return {{random.ordinal, static_cast<uint32_t>(random.place),
             static_cast<uint32_t>(random.place >> 32)},
            {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)},
            static_cast<uint32_t>(first)};
  }

  COHORT_HD void Block(int64_t block, uint32_t (&words)[4]) const {
    uint32_t k0 = key[0], k1 = key[1];
    words[0] = first + static_cast<uint32_t>(block);
    for (int i = 0; i < 3; ++i) words[i + 1] = counter[i];
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const uint64_t a = static_cast<uint64_t>(kPhiloxMultiplierA) * words[0];
      const uint64_t b = static_cast<uint64_t>(kPhiloxMultiplierB) * words[2];
      words[0] = static_cast<uint32_t>(b >> 32) ^ words[1] ^ k0;
      words[1] = static_cast<uint32_t>(b);
      words[2] = static_cast<uint32_t>(a >> 32) ^ words[3] ^ k1;
      words[3] = static_cast<uint32_t>(a);
      k0 += kPhiloxWeylA;
      k1 += kPhiloxWeylB;
    }
  }
};

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_PHILOX_H_
