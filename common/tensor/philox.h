#ifndef COHORT_COMMON_TENSOR_PHILOX_H_
#define COHORT_COMMON_TENSOR_PHILOX_H_

#include <array>
#include <cstdint>

namespace cohort {

using PhiloxBlock = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Constants of Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11).
inline constexpr uint32_t kPhiloxMultiplierA = 0xD2511F53;
inline constexpr uint32_t kPhiloxMultiplierB = 0xCD9E8D57;
inline constexpr uint32_t kPhiloxWeylA = 0x9E3779B9;
inline constexpr uint32_t kPhiloxWeylB = 0xBB67AE85;
inline constexpr int kPhiloxRounds = 10;

// Philox4x32-10: 128 random bits that are a pure function of counter and key. All random numbers of
// Cohort come from it, so that none depends on a worker, a thread or a shard.
constexpr PhiloxBlock Philox(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t a = static_cast<uint64_t>(kPhiloxMultiplierA) * counter[0];
    const uint64_t b = static_cast<uint64_t>(kPhiloxMultiplierB) * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += kPhiloxWeylA;
    key[1] += kPhiloxWeylB;
  }
  return counter;
}

constexpr PhiloxKey PhiloxKeyOf(uint64_t key) {
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

// The same with 64-bit words: counter = {low, high}.
constexpr PhiloxBlock Philox(uint64_t counter_low, uint64_t counter_high, uint64_t key) {
  return Philox({static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                 static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)},
                PhiloxKeyOf(key));
}

// A uniform number in [0, 1) with 53 random bits.
constexpr double UniformFromBits(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

// Mixes two words into 64 bits; derives keys from a seed, the hash of a name and the like.
constexpr uint64_t PhiloxMix(uint64_t a, uint64_t b) {
  const PhiloxBlock block = Philox(a, b, 0);
  return block[0] | static_cast<uint64_t>(block[1]) << 32;
}

}  // namespace cohort

#endif  // COHORT_COMMON_TENSOR_PHILOX_H_
