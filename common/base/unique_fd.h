#ifndef COHORT_COMMON_BASE_UNIQUE_FD_H_
#define COHORT_COMMON_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace cohort {

// Owns a file descriptor and closes it. Negative: none, as open(2) and similar calls return on
// failure. errno keeps their error until something is closed.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Close(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = other.Release();
    }
    return *this;
  }

  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Gives up ownership: the caller closes the descriptor.
  int Release() { return std::exchange(fd_, -1); }
  // Closes now and returns the result of close(2), which reports some errors only then. Returns 0
  // if there is no descriptor.
  int Close() { return fd_ < 0 ? 0 : ::close(Release()); }

 private:
  int fd_ = -1;
};

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_UNIQUE_FD_H_
