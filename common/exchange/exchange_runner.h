#ifndef COHORT_COMMON_EXCHANGE_EXCHANGE_RUNNER_H_
#define COHORT_COMMON_EXCHANGE_EXCHANGE_RUNNER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>

#include "common/exchange/exchange.h"
#include "common/exchange/exchange_thread.h"
#include "common/exchange/variable_access.h"
#include "common/graph/program.h"

namespace cohort {

// Runs exchanges for one thread, the step thread: Begin sends the requests, and Finish blocks until
// the exchange has ended. Between the two the thread may compute; nobody receives answers
// meanwhile, and a request that waits for the end of another write is not sent before the next
// Poll. Hands the exchange what other threads have set (ExchangeThread). The subclass decides how
// messages travel: by gRPC in a worker (remote_access.h).
//
//   Begin:   Exchange::Begin ─► apply Set* ─► Exchange::Poll
//   Poll:    TakeInput
//   Finish:  { WaitForInput ─► apply Set* ─► Exchange::Poll } until it has ended ─► OnEnded
//
// Only the step thread calls the functions that are not those of ExchangeThread.
class ExchangeRunner : public ExchangeThread, protected ExchangeSink {
 public:
  // Access to the variables of one program. Its Begin returns these errors besides those of
  // VariableAccess::Exchange: FailedPrecondition before the first routes, InvalidArgument if the
  // program does not fit them. The result must not outlive this object, and is destroyed on the
  // step thread. When none is left, no value is lent any more.
  std::unique_ptr<VariableAccess> ForProgram(std::span<const VariableDecl> variables);

 protected:
  explicit ExchangeRunner(const ExchangeOptions& options) : exchange_(options) {}
  ~ExchangeRunner() override = default;

  // Handles the input that has come, and does not wait for more.
  virtual void TakeInput() = 0;
  // An exchange that began has ended, with any outcome; the caller's memory is still valid.
  virtual void OnEnded() = 0;

  Exchange exchange_;

 private:
  class Access;
  absl::Status Begin(Program* program, const PushBatch* push, const PullBatch* pull);
  void Poll();
  absl::StatusOr<ExchangeResult> Finish(Program* program);
  void Steer(Program* program);

  int accesses_ = 0;
  int64_t left_us_ = 0;  // the end of the last Begin or Poll
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_EXCHANGE_RUNNER_H_
