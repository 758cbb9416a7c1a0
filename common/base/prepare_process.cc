#include "common/base/prepare_process.h"

#include <sys/resource.h>

#include <algorithm>

#include "common/base/denormals.h"
#include "common/base/exit_code.h"

namespace cohort {
namespace {

constexpr rlim_t kMostFiles = rlim_t{1} << 20;

void RaiseFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t most = std::min(limit.rlim_max, kMostFiles);
  if (limit.rlim_cur >= most) return;
  limit.rlim_cur = most;
  setrlimit(RLIMIT_NOFILE, &limit);  // if it fails, the old limit holds
}

}  // namespace

void PrepareProcess(const char* program) {
  InstallTerminateHandler(program);
  FlushDenormals();
  RaiseFileLimit();
}

}  // namespace cohort
