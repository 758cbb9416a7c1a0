#include "common/weights/restrict_process.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <vector>

#include "common/base/status.h"

namespace cohort {
namespace {

// The sanitizers reserve more addresses than any limit, and need other calls.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COHORT_UNDER_SANITIZER
#endif
#endif

#ifdef COHORT_UNDER_SANITIZER
constexpr bool kUnderSanitizer = true;
#else
constexpr bool kUnderSanitizer = false;
#endif

constexpr uint64_t kLibraryBytes = uint64_t{4} << 30;  // addresses for the libraries
constexpr uint64_t kSeconds = 60;
constexpr uint64_t kBytesPerSecond = 10 << 20;  // a slow disk

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;  // without a filter
#endif

constexpr uint32_t kAllowed[] = {
    __NR_brk,          __NR_clock_gettime, __NR_close,
    __NR_exit_group,   __NR_fcntl,         __NR_fstat,
    __NR_ftruncate,    __NR_futex,         __NR_getpid,
    __NR_getrandom,    __NR_gettid,        __NR_lseek,
    __NR_madvise,      __NR_mmap,          __NR_mprotect,
    __NR_mremap,       __NR_munmap,        __NR_newfstatat,
    __NR_pread64,      __NR_read,          __NR_rt_sigprocmask,
    __NR_rt_sigreturn, __NR_sched_yield,   __NR_write,
};

absl::Status Limit(__rlimit_resource resource, uint64_t value) {
  const rlimit limit = {.rlim_cur = value, .rlim_max = value};
  if (::setrlimit(resource, &limit) == 0) return absl::OkStatus();
  // A lower limit was there before.
  if (errno == EPERM) return absl::OkStatus();
  return Unavailable("setrlimit: {}", std::strerror(errno));
}

// Other calls fail with EPERM. openat may only read.
absl::Status FilterCalls() {
  const auto load = [](size_t offset) {
    return sock_filter(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
  };
  const sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  const sock_filter kill = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  std::vector<sock_filter> code = {load(offsetof(seccomp_data, arch)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0), kill,
                                   load(offsetof(seccomp_data, nr))};
  for (const uint32_t call : kAllowed) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    code.push_back(allow);
  }
  code.insert(code.end(),
              {BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 1, 0), refuse,
               load(offsetof(seccomp_data, args[2])),
               BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC, 0, 1),
               refuse, allow});
  const sock_fprog program = {.len = static_cast<unsigned short>(code.size()),
                              .filter = code.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return Unavailable("no_new_privs: {}", std::strerror(errno));
  }
  // A kernel without seccomp: the other limits remain.
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 && errno != EINVAL) {
    return Unavailable("seccomp: {}", std::strerror(errno));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RestrictProcess(uint64_t output_bytes) {
  COHORT_RETURN_IF_ERROR(Limit(RLIMIT_CORE, 0));
  COHORT_RETURN_IF_ERROR(Limit(RLIMIT_NOFILE, 16));
  COHORT_RETURN_IF_ERROR(Limit(RLIMIT_CPU, kSeconds + output_bytes / kBytesPerSecond));
  COHORT_RETURN_IF_ERROR(Limit(RLIMIT_FSIZE, 2 * output_bytes));  // with the header
  if (kUnderSanitizer) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(Limit(RLIMIT_AS, kLibraryBytes + 2 * output_bytes));
  return kArchitecture == 0 ? absl::OkStatus() : FilterCalls();
}

}  // namespace cohort
