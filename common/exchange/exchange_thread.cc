#include "common/exchange/exchange_thread.h"

#include <utility>

#include "common/base/status.h"
#include "proto/worker.pb.h"

namespace cohort {

void ExchangeThread::SetRoutes(std::shared_ptr<const v1::Routes> routes) {
  MutexLock lock(&mu_);
  routes_ = std::move(routes);
  routes_number_.fetch_add(1, std::memory_order_release);
  WakeUp();
}

void ExchangeThread::SetGeneration(uint64_t generation) {
  generation_.store(generation, std::memory_order_relaxed);
  WakeUp();
}

void ExchangeThread::Interrupt() {
  interrupted_.store(true, std::memory_order_release);
  WakeUp();
}

absl::Status ExchangeThread::Refresh(Program* program) {
  const uint64_t number = routes_number_.load(std::memory_order_acquire);
  if (number == 0) return FailedPrecondition("no routes to parameter servers yet");
  if (program->routes_number == number) return absl::OkStatus();
  std::shared_ptr<const v1::Routes> routes;
  {
    MutexLock lock(&mu_);
    routes = routes_;
    program->routes_number = routes_number_.load(std::memory_order_relaxed);
  }
  auto made = ProgramRoutes::Make(*routes, program->variables);
  if (!made.ok()) {
    program->routes_number = 0;
    return made.status();
  }
  program->routes = *std::move(made);
  return absl::OkStatus();
}

}  // namespace cohort
