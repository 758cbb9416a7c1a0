#include "common/exchange/exchange_runner.h"

#include <utility>

#include "common/base/status.h"

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

absl::Status ExchangeRunner::Begin(Program* program, const PushBatch* push, const PullBatch* pull) {
  COHORT_RETURN_IF_ERROR(Refresh(program));
  const int64_t now_us = NowUs();
  exchange_.SetGeneration(generation(), now_us);
  exchange_.SetWatermark(watermark());
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

// Hands the exchange what other threads have set.
void ExchangeRunner::Steer(Program* program) {
  if (TakeInterrupt()) {
    exchange_.Cancel(Cancelled("interrupted"));
    return;
  }
  const int64_t now_us = NowUs();
  exchange_.SetGeneration(generation(), now_us);
  exchange_.SetWatermark(watermark());
  if (HasNewRoutes(*program)) {
    const absl::Status refreshed = Refresh(program);
    if (refreshed.ok()) {
      exchange_.OnRoutes(program->routes, now_us);
    } else {
      exchange_.Cancel(refreshed);
    }
  }
}

}  // namespace cohort
