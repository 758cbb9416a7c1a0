#include "common/exchange/exchange_test_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};
}  // namespace

void* operator new(size_t size) {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
// Address sanitizer has a nothrow one of its own, whose memory our delete must not get.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
  return std::malloc(size);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace cohort::exchange_test {

void CountAllocations(bool on) { counting = on; }
int64_t CountedAllocations() { return allocations; }

}  // namespace cohort::exchange_test
