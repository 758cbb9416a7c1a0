#include "common/base/denormals.h"

#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace cohort {

#if defined(__SSE2__)

constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;  // bits in MXCSR

void FlushDenormals() { _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero); }

bool FlushesDenormals() {
  constexpr unsigned both = kFlushToZero | kDenormalsAreZero;
  return (_mm_getcsr() & both) == both;
}

#elif defined(__aarch64__)

constexpr uint64_t kFlush = uint64_t{1} << 24;  // FPCR.FZ, for inputs and results

static uint64_t ControlRegister() {
  uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}

void FlushDenormals() { asm volatile("msr fpcr, %0" : : "r"(ControlRegister() | kFlush)); }
bool FlushesDenormals() { return (ControlRegister() & kFlush) != 0; }

#else
#error "say how this processor flushes denormal numbers to zero"
#endif

}  // namespace cohort
