#ifndef COHORT_COMMON_BASE_FNV1A_H_
#define COHORT_COMMON_BASE_FNV1A_H_

#include <cstdint>
#include <string_view>

namespace cohort {

// The hash FNV-1a of 64 bits (Fowler, Noll, Vo): equal in every process, and for ever, for
// journals, manifests and initial values rest on it. Not for what an enemy may choose.
inline constexpr uint64_t kFnv1aBasis = 0xcbf29ce484222325;

// Of what `hash` is of, followed by `bytes`.
constexpr uint64_t Fnv1a(std::string_view bytes, uint64_t hash = kFnv1aBasis) {
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_FNV1A_H_
