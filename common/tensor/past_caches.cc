#include "common/tensor/past_caches.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace cohort {

#ifdef __SSE2__

void CopyPastCaches(void* to, const void* from, size_t bytes) {
  constexpr size_t kLine = 64;
  auto* out = static_cast<uint8_t*>(to);
  const auto* in = static_cast<const uint8_t*>(from);
  const size_t before = std::min(bytes, (kLine - reinterpret_cast<uintptr_t>(out) % kLine) % kLine);
  std::memcpy(out, in, before);
  out += before;
  in += before;
  bytes -= before;
  // Only whole lines are written past the caches: to write a part of a line, the processor would
  // first read the rest of it.
  for (; bytes >= kLine; bytes -= kLine, out += kLine, in += kLine) {
    const auto* const source = reinterpret_cast<const __m128i*>(in);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    auto* const target = reinterpret_cast<__m128i*>(out);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(out, in, bytes);
  _mm_sfence();
}

#else

void CopyPastCaches(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

#endif

}  // namespace cohort
