#ifndef COHORT_COMMON_EXCHANGE_EXCHANGE_RUNNER_H_
#define COHORT_COMMON_EXCHANGE_EXCHANGE_RUNNER_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "common/exchange/exchange.h"
#include "common/exchange/variable_access.h"
#include "common/graph/program.h"

namespace cohort::v1 {
class Routes;
}

namespace cohort {

// Runs exchanges for one thread, the step thread: Begin sends the requests, and Finish blocks until
// the exchange has ended. Between the two the thread may compute; nobody receives answers
// meanwhile, and a request that waits for the end of another write is not sent before the next
// Poll. Hands the exchange what other threads have set: routes, generation, watermark, an
// interruption. The subclass decides how messages travel, what the time is and how a thread waits:
// gRPC in a worker (remote_access.h), a virtual clock in the simulator.
//
//   Begin:   Exchange::Begin ─► apply Set* ─► Exchange::Poll
//   Poll:    TakeInput
//   Finish:  { WaitForInput ─► apply Set* ─► Exchange::Poll } until it has ended ─► OnEnded
//
// Set* and Interrupt are thread-safe. Only the step thread calls the other functions.
class ExchangeRunner : protected ExchangeSink {
 public:
  // Access to the variables of one program. Its Begin returns these errors besides those of
  // VariableAccess::Exchange: FailedPrecondition before the first routes, InvalidArgument if the
  // program does not fit them. The result must not outlive this object, and is destroyed on the
  // step thread. When none is left, no value is lent any more.
  std::unique_ptr<VariableAccess> ForProgram(std::span<const VariableDecl> variables);

  // Takes effect at once, also for a running exchange.
  void SetRoutes(std::shared_ptr<const v1::Routes> routes);
  void SetGeneration(uint64_t generation);
  void SetWatermark(uint64_t watermark);
  // Makes the running exchange return Cancelled; if none is running, the next one.
  void Interrupt();

 protected:
  static constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

  explicit ExchangeRunner(const ExchangeOptions& options) : exchange_(options) {}
  ~ExchangeRunner() override = default;

  virtual int64_t NowUs() const = 0;
  // Returns when input has come (and was given to `exchange_`), after WakeUp, or at the deadline.
  virtual void WaitForInput(int64_t deadline_us) = 0;
  // Handles the input that has come, and does not wait for more.
  virtual void TakeInput() = 0;
  // Makes WaitForInput return. Thread-safe.
  virtual void WakeUp() = 0;
  // An exchange that began has ended, with any outcome; the caller's memory is still valid.
  virtual void OnEnded() = 0;

  Exchange exchange_;

 private:
  class Access;
  // One program's view. `routes` are rebuilt when the job's routes change.
  struct Program {
    std::vector<VariableDecl> variables;
    std::shared_ptr<const ProgramRoutes> routes;
    uint64_t routes_number = 0;
  };

  absl::Status Begin(Program* program, const PushBatch* push, const PullBatch* pull);
  void Poll();
  absl::StatusOr<ExchangeResult> Finish(Program* program);
  absl::Status Refresh(Program* program);
  void Steer(Program* program);

  int accesses_ = 0;
  int64_t left_us_ = 0;  // the end of the last Begin or Poll

  // Set by other threads.
  std::atomic<uint64_t> generation_{0};
  std::atomic<uint64_t> watermark_{0};
  std::atomic<bool> interrupted_{false};
  std::atomic<uint64_t> routes_number_{0};
  Mutex mu_;
  std::shared_ptr<const v1::Routes> routes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_EXCHANGE_RUNNER_H_
