#ifndef COHORT_COMMON_BASE_FNV1A_H_
#define COHORT_COMMON_BASE_FNV1A_H_

#include <cstdint>
#include <string_view>

namespace cohort {

// The 64-bit hash FNV-1a (Fowler, Noll, Vo). It is the same in every process and must never change:
// journals, manifests and initial values depend on it. Do not use it for keys that an attacker may
// choose.
inline constexpr uint64_t kFnv1aBasis = 0xcbf29ce484222325;

// The hash of the bytes that led to `hash`, followed by `bytes`.
constexpr uint64_t Fnv1a(std::string_view bytes, uint64_t hash = kFnv1aBasis) {
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_FNV1A_H_
