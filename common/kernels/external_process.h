#ifndef COHORT_COMMON_KERNELS_EXTERNAL_PROCESS_H_
#define COHORT_COMMON_KERNELS_EXTERNAL_PROCESS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/os/child_process.h"

namespace cohort {

// Memory that this process and another one map.
class SharedRegion {
 public:
  static absl::StatusOr<std::unique_ptr<SharedRegion>> Create(size_t bytes);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  int fd() const { return fd_; }
  uint64_t id() const { return id_; }  // no other region of this process has it

 private:
  SharedRegion(int fd, uint8_t* data, size_t bytes);

  const int fd_;
  uint8_t* const data_;
  const size_t bytes_;
  const uint64_t id_;
};

// The process that computes external steps beside this task: the command in the environment
// variable COHORT_EXTERNAL_STEP, a list of words as JSON. The thread that calls it first starts it,
// and it is killed when this thread ends (ChildProcessOptions::death_signal). A call starts it
// again if it has ended, so a step keeps no state between calls. It talks over its standard input,
// a Unix socket, in lines of JSON:
//
//   {"map": 3, "bytes": 4096}     with a descriptor: the memory of region 3
//   {"region": 3, ...}            a call; the caller has written its inputs to the region
//   {} or {"error": "..."}        the answer; the outputs are in the region
class ExternalProcess {
 public:
  // The one of this task; callers share it.
  static std::shared_ptr<ExternalProcess> OfThisTask();
  ~ExternalProcess();

  // Makes a call, a JSON object, and waits for its answer. Errors: FailedPrecondition if there is
  // no command; those of starting it; InvalidArgument with the text of an error that it answered;
  // Internal if it ends during the call, and once more when the call is repeated.
  absl::Status Call(const SharedRegion& region, const std::string& call);

 private:
  absl::Status Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Kills the process and what it has started. Returns waitpid's status.
  int End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unavailable: the process has ended.
  absl::StatusOr<std::string> Exchange(const SharedRegion& region, const std::string& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Send(const std::string& line, int descriptor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::string> ReadLine() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::unique_ptr<ChildProcess> child_ ABSL_GUARDED_BY(mutex_);
  int socket_ ABSL_GUARDED_BY(mutex_) = -1;
  int process_ ABSL_GUARDED_BY(mutex_) = -1;           // pidfd_open of the child
  std::set<uint64_t> mapped_ ABSL_GUARDED_BY(mutex_);  // regions that the process knows
};

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_EXTERNAL_PROCESS_H_
