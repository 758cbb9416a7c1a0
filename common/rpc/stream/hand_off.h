#ifndef COHORT_COMMON_RPC_STREAM_HAND_OFF_H_
#define COHORT_COMMON_RPC_STREAM_HAND_OFF_H_

#if defined(__SANITIZE_THREAD__)
#define COHORT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define COHORT_THREAD_SANITIZER 1
#endif
#endif

#ifdef COHORT_THREAD_SANITIZER
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace cohort {

// Tells thread sanitizer about an order that gRPC's completion queues guarantee, but that their
// uninstrumented libraries hide. Everything before the start of an operation (or before a slice is
// given away) happens before its event is delivered (or the slice is released). Empty in other
// builds.
inline void HandOffRelease([[maybe_unused]] void* address) {
#ifdef COHORT_THREAD_SANITIZER
  __tsan_release(address);
#endif
}

inline void HandOffAcquire([[maybe_unused]] void* address) {
#ifdef COHORT_THREAD_SANITIZER
  __tsan_acquire(address);
#endif
}

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_HAND_OFF_H_
