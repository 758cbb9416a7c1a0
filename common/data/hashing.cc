#include "common/data/hashing.h"

#include <farmhash.h>

#include <bit>
#include <cstring>

namespace cohort {
namespace {

// The state of SipHash (Aumasson, Bernstein: SipHash, a fast short-input PRF, 2012).
struct SipState {
  uint64_t v0, v1, v2, v3;

  void Round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void Add(uint64_t word) {
    v3 ^= word;
    Round();
    Round();
    v0 ^= word;
  }
};

uint64_t ShiftMix(uint64_t value) { return value ^ (value >> 47); }

}  // namespace

uint64_t Fingerprint(std::string_view text) {
  return util::Fingerprint64(text.data(), text.size());
}

// FingerprintCat64 of tensorflow/core/platform/fingerprint.h.
uint64_t JoinFingerprints(uint64_t first, uint64_t second) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;
  uint64_t joined = first ^ kFactor;
  joined ^= ShiftMix(second * kFactor) * kFactor;
  joined *= kFactor;
  joined = ShiftMix(joined) * kFactor;
  return ShiftMix(joined);
}

uint64_t SipHash(const std::array<uint64_t, 2>& key, std::string_view text) {
  SipState state = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                    key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    state.Add(word);
  }
  uint64_t last = static_cast<uint64_t>(text.size()) << 56;
  for (size_t i = 0; at + i < text.size(); ++i) {
    last |= static_cast<uint64_t>(static_cast<uint8_t>(text[at + i])) << (8 * i);
  }
  state.Add(last);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.Round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace cohort
