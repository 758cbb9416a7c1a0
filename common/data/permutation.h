#ifndef COHORT_COMMON_DATA_PERMUTATION_H_
#define COHORT_COMMON_DATA_PERMUTATION_H_

#include <array>
#include <cstdint>

namespace cohort {

// A keyed permutation of [0, size) that is computed, not stored: a Feistel network over the
// smallest power of two that holds `size`, walked along its cycle until it is inside (Black and
// Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002, methods 2 and 3). Equal keys give
// equal permutations on every machine and in every version: leases depend on it.
class Permutation {
 public:
  // `size` >= 1.
  Permutation(uint64_t size, uint64_t key_low, uint64_t key_high);

  // The image of `i` < size, and its inverse.
  uint64_t operator()(uint64_t i) const {
    do i = Forward(i);
    while (i >= size_);
    return i;
  }
  uint64_t Inverse(uint64_t i) const {
    do i = Backward(i);
    while (i >= size_);
    return i;
  }

 private:
  // Each round mixes each half once: six half-rounds in all. Four make a strong pseudo-random
  // permutation (Luby and Rackoff); the rest is margin for halves of few bits.
  static constexpr int kDoubleRounds = 3;

  // A bijective mixer of 64 bits (the finalizer of MurmurHash3).
  static uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
  }
  uint64_t Forward(uint64_t x) const {
    uint64_t left = x >> right_bits_;
    uint64_t right = x & right_mask_;
    for (int round = 0; round < kDoubleRounds; ++round) {
      left ^= Mix(right ^ keys_[2 * round]) & left_mask_;
      right ^= Mix(left ^ keys_[2 * round + 1]) & right_mask_;
    }
    return left << right_bits_ | right;
  }
  uint64_t Backward(uint64_t x) const {
    uint64_t left = x >> right_bits_;
    uint64_t right = x & right_mask_;
    for (int round = kDoubleRounds - 1; round >= 0; --round) {
      right ^= Mix(left ^ keys_[2 * round + 1]) & right_mask_;
      left ^= Mix(right ^ keys_[2 * round]) & left_mask_;
    }
    return left << right_bits_ | right;
  }

  uint64_t size_;
  int right_bits_;
  uint64_t left_mask_;
  uint64_t right_mask_;
  std::array<uint64_t, 2 * kDoubleRounds> keys_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_PERMUTATION_H_
