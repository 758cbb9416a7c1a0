#ifndef COHORT_COMMON_EXCHANGE_EXCHANGE_THREAD_H_
#define COHORT_COMMON_EXCHANGE_EXCHANGE_THREAD_H_

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "common/exchange/exchange_routes.h"
#include "common/graph/program.h"

namespace cohort::v1 {
class Routes;
}

namespace cohort {

// The step thread as its exchanges see it: what other threads set for them, and how it waits. The
// subclass decides what the time is: a completion queue and a clock in a worker (remote_access.h),
// virtual ones in the simulator.
class ExchangeThread {
 public:
  virtual ~ExchangeThread() = default;

  // Take effect at once, also for a running exchange. Thread-safe.
  void SetRoutes(std::shared_ptr<const v1::Routes> routes);
  void SetGeneration(uint64_t generation);
  void SetWatermark(uint64_t watermark) { watermark_.store(watermark, std::memory_order_relaxed); }
  // Makes the running exchange return Cancelled; if none is running, the next one. Thread-safe.
  void Interrupt();
  // Makes WaitForInput return. Thread-safe.
  virtual void WakeUp() = 0;

  // Only exchanges call the functions below, on the step thread.

  // One program's view of the routes.
  struct Program {
    std::vector<VariableDecl> variables;
    std::shared_ptr<const ProgramRoutes> routes;
    uint64_t routes_number = 0;
  };
  // Rebuilds the program's routes if the job's routes are new. Errors: FailedPrecondition before
  // the first routes, InvalidArgument if the program does not fit them.
  absl::Status Refresh(Program* program);
  bool HasNewRoutes(const Program& program) const {
    return program.routes_number != routes_number_.load(std::memory_order_relaxed);
  }
  uint64_t generation() const { return generation_.load(std::memory_order_relaxed); }
  uint64_t watermark() const { return watermark_.load(std::memory_order_relaxed); }
  // Returns true once after Interrupt.
  bool TakeInterrupt() {
    return interrupted_.load(std::memory_order_relaxed) &&
           interrupted_.exchange(false, std::memory_order_acquire);
  }

  static constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
  virtual int64_t NowUs() const = 0;
  // Returns when input has come (and was handled), after WakeUp, or at the deadline.
  virtual void WaitForInput(int64_t deadline_us) = 0;

 private:
  std::atomic<uint64_t> generation_{0};
  std::atomic<uint64_t> watermark_{0};
  std::atomic<bool> interrupted_{false};
  std::atomic<uint64_t> routes_number_{0};
  Mutex mu_;
  std::shared_ptr<const v1::Routes> routes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_EXCHANGE_THREAD_H_
