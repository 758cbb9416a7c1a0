#ifndef COHORT_COMMON_DATA_RELEASE_IF_LARGE_H_
#define COHORT_COMMON_DATA_RELEASE_IF_LARGE_H_

#include <cstddef>

namespace cohort {

// Gives the memory of a buffer that a thread reuses back at the end of a scope, if it is large: one
// large record would otherwise cost every thread that memory until it ends.
template <typename Buffer>
class ReleaseIfLarge {
 public:
  static constexpr size_t kMaxKeptBytes = 64 << 20;

  explicit ReleaseIfLarge(Buffer* buffer) : buffer_(buffer) {}
  ~ReleaseIfLarge() {
    if (buffer_->capacity() * sizeof(typename Buffer::value_type) > kMaxKeptBytes) {
      Buffer().swap(*buffer_);
    }
  }
  ReleaseIfLarge(const ReleaseIfLarge&) = delete;
  ReleaseIfLarge& operator=(const ReleaseIfLarge&) = delete;

 private:
  Buffer* const buffer_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RELEASE_IF_LARGE_H_
