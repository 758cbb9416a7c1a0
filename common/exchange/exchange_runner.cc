#include "common/exchange/exchange_runner.h"

#include <utility>

#include "common/base/status.h"
#include "proto/worker.pb.h"

namespace cohort {

class ExchangeRunner::Access : public VariableAccess {
 public:
  Access(ExchangeRunner* runner, std::span<const VariableDecl> variables) : runner_(runner) {
    program_.variables.assign(variables.begin(), variables.end());
    ++runner_->accesses_;
  }
  ~Access() override {
    if (--runner_->accesses_ == 0) runner_->exchange_.EndAllLoans();
  }
  absl::Status Begin(const PushBatch* push, const PullBatch* pull) override {
    return runner_->Begin(&program_, push, pull);
  }
  absl::StatusOr<ExchangeResult> Finish() override { return runner_->Finish(&program_); }
  void Poll() override { runner_->Poll(); }
  void Interrupt() override { runner_->Interrupt(); }

 private:
  ExchangeRunner* const runner_;
  Program program_;
};

std::unique_ptr<VariableAccess> ExchangeRunner::ForProgram(
    std::span<const VariableDecl> variables) {
  return std::make_unique<Access>(this, variables);
}

void ExchangeRunner::SetRoutes(std::shared_ptr<const v1::Routes> routes) {
  MutexLock lock(&mu_);
  routes_ = std::move(routes);
  routes_number_.fetch_add(1, std::memory_order_release);
  WakeUp();
}

void ExchangeRunner::SetGeneration(uint64_t generation) {
  generation_.store(generation, std::memory_order_relaxed);
  WakeUp();
}

void ExchangeRunner::SetWatermark(uint64_t watermark) {
  watermark_.store(watermark, std::memory_order_relaxed);
}

void ExchangeRunner::Interrupt() {
  interrupted_.store(true, std::memory_order_release);
  WakeUp();
}

absl::Status ExchangeRunner::Begin(Program* program, const PushBatch* push, const PullBatch* pull) {
  COHORT_RETURN_IF_ERROR(Refresh(program));
  const int64_t now_us = NowUs();
  exchange_.SetGeneration(generation_.load(std::memory_order_relaxed), now_us);
  exchange_.SetWatermark(watermark_.load(std::memory_order_relaxed));
  COHORT_RETURN_IF_ERROR(exchange_.Begin(program->routes, push, pull, now_us));
  Steer(program);
  exchange_.Poll(now_us, this);
  left_us_ = NowUs();
  return absl::OkStatus();
}

void ExchangeRunner::Poll() {
  exchange_.Unattended(NowUs() - left_us_);
  TakeInput();
  left_us_ = NowUs();
}

absl::StatusOr<ExchangeResult> ExchangeRunner::Finish(Program* program) {
  exchange_.Unattended(NowUs() - left_us_);
  while (exchange_.state() == Exchange::State::kRunning) {
    WaitForInput(exchange_.NextPoll());
    if (exchange_.state() != Exchange::State::kRunning) break;
    const int64_t now_us = NowUs();
    Steer(program);
    exchange_.Poll(now_us, this);
  }
  OnEnded();
  if (exchange_.state() != Exchange::State::kDone) return exchange_.status();
  return exchange_.result();
}

// Rebuilds the program's routes if the job's routes are new.
absl::Status ExchangeRunner::Refresh(Program* program) {
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

// Hands the exchange what other threads have set.
void ExchangeRunner::Steer(Program* program) {
  if (interrupted_.load(std::memory_order_relaxed) &&
      interrupted_.exchange(false, std::memory_order_acquire)) {
    exchange_.Cancel(Cancelled("interrupted"));
    return;
  }
  const int64_t now_us = NowUs();
  exchange_.SetGeneration(generation_.load(std::memory_order_relaxed), now_us);
  exchange_.SetWatermark(watermark_.load(std::memory_order_relaxed));
  if (program->routes_number != routes_number_.load(std::memory_order_relaxed)) {
    const absl::Status refreshed = Refresh(program);
    if (refreshed.ok()) {
      exchange_.OnRoutes(program->routes, now_us);
    } else {
      exchange_.Cancel(refreshed);
    }
  }
}

}  // namespace cohort
