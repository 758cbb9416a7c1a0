#include "common/testing/counted_test_calls.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace cohort::testing {
namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};
std::atomic<int64_t> locks{0};
std::atomic<int64_t> onednn_locks{0};

// Returns true if a return address lies in oneDNN.
bool InOneDnn(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 && std::strstr(info.dli_fname, "libdnnl") != nullptr;
}

void* Allocate(size_t size, size_t alignment) {
  if (counting) ++allocations;
  void* p = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (p == nullptr) std::abort();
  return p;
}

}  // namespace

void StartCounting() {
  allocations = locks = onednn_locks = 0;
  counting = true;
}
void StopCounting() { counting = false; }
void ResumeCounting() { counting = true; }
int64_t CountedAllocations() { return allocations; }
int64_t CountedLocks() { return locks; }
int64_t CountedOneDnnLocks() { return onednn_locks; }

}  // namespace cohort::testing

void* operator new(size_t size) { return cohort::testing::Allocate(size, 16); }
void* operator new(size_t size, std::align_val_t a) {
  return cohort::testing::Allocate(size, static_cast<size_t>(a));
}
// Sanitizers replace operator new themselves; theirs does not match our delete.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return cohort::testing::Allocate(size, 16);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static const Lock real = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (cohort::testing::counting) {
    const bool onednn = cohort::testing::InOneDnn(__builtin_return_address(0));
    ++(onednn ? cohort::testing::onednn_locks : cohort::testing::locks);
  }
  return real(mutex);
}
