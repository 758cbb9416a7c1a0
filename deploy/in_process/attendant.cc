#include "deploy/in_process/attendant.h"

#include <chrono>
#include <utility>

#include "common/base/exit_code.h"

namespace cohort {
namespace {

constexpr auto kTick = std::chrono::milliseconds(100);

}  // namespace

Attendant::Attendant(ExitEvent* end, std::function<std::optional<int>()> tick)
    : thread_([this, end, tick = std::move(tick)] { Run(end, tick); }) {}

Attendant::~Attendant() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    wake_.SignalAll();
  }
  thread_.join();
}

void Attendant::Run(ExitEvent* end, const std::function<std::optional<int>()>& tick) {
  while (true) {
    const std::optional<int> code = tick();
    if (code.has_value()) return end->Set(*code);
    MutexLock lock(&mu_);
    if (stopping_) return;
    wake_.WaitUntil(&mu_, std::chrono::steady_clock::now() + kTick);
  }
}

int LogEnd(const RoleContext& context, const absl::Status& status) {
  if (!status.ok()) context.log->Failure(LogLevel::kError, "ends", status);
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace cohort
