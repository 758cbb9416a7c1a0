#include "chief/core/closing_step.h"

#include <algorithm>
#include <cmath>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"

namespace cohort {

constexpr int64_t kSlowCloseUs = 3'000'000;  // most closes take milliseconds

ClosingStep::ClosingStep(const CoreContext* context, Outbox* outbox, const OpenStep& open,
                         const std::vector<StepMember>& members, std::set<int> servers)
    : context_(context), outbox_(outbox), next_(open.begin()), waits_for_(std::move(servers)) {
  close_.set_step(open.begin().open_step());
  close_.set_step_try(open.step_try());
  close_.set_iteration(open.begin().iteration());
  close_.set_timeline(context->timeline);
  close_.set_next_place(open.next_place());
  for (const StepMember& member : members) {
    v1::StepMember* const out = close_.add_members();
    out->set_closure(member.closure);
    out->set_index(member.index);
  }
  ScaleLoss(std::none_of(members.begin(), members.end(),
                         [](const StepMember& member) { return member.not_finite; }));
  next_.set_open_step(close_.step() + 1);
  next_.set_iteration(close_.iteration() + (close_.skip() ? 0 : 1));
  next_.set_next_place(close_.next_place());
}

void ClosingStep::ScaleLoss(bool finite) {
  const LossScaling& scaling = context_->options.loss_scaling;
  if (!scaling.enabled()) return;
  const v1::LossScaleState& state = next_.loss_scale();
  LossScale scale(scaling, state.scale(), state.finite_steps());
  const double before = scale.scale();
  scale.OnStep(before, finite);
  close_.set_skip(!finite);
  close_.mutable_loss_scale()->set_scale(scale.scale());
  close_.mutable_loss_scale()->set_finite_steps(scale.finite_steps());
  *next_.mutable_loss_scale() = close_.loss_scale();
  if (scale.scale() >= before) return;
  outbox_->effects()->Note("loss_scale_halved",
                           fmt::format("to {} after step {}, whose gradient is not finite",
                                       scale.scale(), close_.step()));
}

void ClosingStep::Sum() {
  for (const int ps : waits_for_) SumOn(ps);
}

void ClosingStep::SumOn(int ps) {
  v1::ChiefToPs message;
  v1::SumStep* const sum = message.mutable_sum_step();
  sum->set_step(close_.step());
  sum->set_step_try(close_.step_try());
  sum->set_timeline(close_.timeline());
  *sum->mutable_members() = close_.members();
  Asked(ps, outbox_->AskPs(ps, std::move(message)), &sum_requests_);
}

void ClosingStep::Asked(int ps, uint64_t request, std::map<int, uint64_t>* requests) {
  (*requests)[ps] = request;
  progress_[ps] = ProgressWatch(context_->now_us);
}

void ClosingStep::Send() {
  for (const int ps : waits_for_) CloseOn(ps);
  COHORT_CRASH_POINT("chief.step.closing");
}

void ClosingStep::CloseOn(int ps) {
  v1::ChiefToPs message;
  *message.mutable_close_step() = close_;
  Asked(ps, outbox_->AskPs(ps, std::move(message)), &close_requests_);
}

bool ClosingStep::AnswersTo(const std::map<int, uint64_t>& requests, int ps,
                            const v1::PsToChief& message) const {
  const auto asked = requests.find(ps);
  return asked != requests.end() && asked->second == message.request();
}

absl::Status ClosingStep::OnPsMessage(int ps, const v1::PsToChief& message) {
  const std::string name = TaskName(context_->options, PsTask(ps));
  if (message.has_step_summed()) return Annotate(OnSummed(ps, message), name);
  const bool known =
      AnswersTo(close_requests_, ps, message) || AnswersTo(sum_requests_, ps, message);
  if (known && message.has_progress()) {
    progress_[ps].Note(message.progress().bytes(), context_->now_us);
    return absl::OkStatus();
  }
  if (known && message.request() != 0 && message.status().code() != 0) {
    return Annotate(StatusFromProto(message.status()),
                    fmt::format("{} could not close step {}", name, close_.step()));
  }
  if (message.has_step_closed() && message.step_closed().step() == close_.step()) {
    // An older answer says nothing of the tablets that have moved to the server since then.
    if (promoted_.contains(ps) && !AnswersTo(close_requests_, ps, message)) return absl::OkStatus();
    waits_for_.erase(ps);
  }
  return absl::OkStatus();
}

absl::Status ClosingStep::OnSummed(int ps, const v1::PsToChief& answer) {
  if (!AnswersTo(sum_requests_, ps, answer)) return absl::OkStatus();
  for (const v1::GradientNorm& norm : answer.step_summed().norms()) {
    COHORT_ASSIGN_OR_RETURN(const ExactSum squares, ExactSum::Parse(norm.squares()));
    squares_[{norm.optimizer(), norm.variable()}].Add(squares);
  }
  sum_requests_.erase(ps);
  if (!sum_requests_.empty()) return absl::OkStatus();
  for (const auto& [key, squares] : squares_) {
    v1::GradientNorm* const norm = close_.add_norms();
    norm->set_optimizer(key.first);
    norm->set_variable(key.second);
    norm->set_norm(std::sqrt(squares.ToDouble()));
  }
  Send();
  return absl::OkStatus();
}

void ClosingStep::OnPsReturned(int ps, const v1::PsHello& hello) {
  if (!waits_for_.contains(ps)) return;
  if (!sum_requests_.empty()) {
    if (sum_requests_.contains(ps)) SumOn(ps);
    return;
  }
  if (hello.position().open_step() > close_.step() && !hello.lacks_last_close()) {
    waits_for_.erase(ps);
  } else {
    CloseOn(ps);
  }
}

void ClosingStep::OnHomes(const std::set<int>& servers, const std::set<int>& promoted) {
  std::erase_if(waits_for_, [&](int ps) { return !servers.contains(ps); });
  if (!sum_requests_.empty()) {
    // The parts of tablets that have moved are asked for again; nobody has closed the step.
    squares_.clear();
    sum_requests_.clear();
    waits_for_ = servers;
    return Sum();
  }
  for (const int ps : promoted) {
    waits_for_.insert(ps);
    promoted_.insert(ps);
    CloseOn(ps);
  }
}

// A server that was away has been asked again when it came back. One that has summed its part is
// asked nothing until all have.
absl::Status ClosingStep::Tick() const {
  const auto& asked = sum_requests_.empty() ? close_requests_ : sum_requests_;
  for (const auto& [ps, request] : asked) {
    const ProgressWatch& progress = progress_.at(ps);
    const int64_t silent_us = context_->now_us - progress.moved_us();
    if (!waits_for_.contains(ps) || silent_us < context_->options.close_deadline_us) continue;
    absl::Status late =
        DeadlineExceeded("{} does not close step {}: {}", TaskName(context_->options, PsTask(ps)),
                         close_.step(), progress.ToString(context_->now_us));
    SetFailure(&late, {.role = "ps", .index = ps, .retryable = true});
    return late;
  }
  return absl::OkStatus();
}

std::string ClosingStep::Waiting() const {
  if (closed() || context_->now_us - since_us_ < kSlowCloseUs) return "";
  return fmt::format("waiting for {} to close step {}",
                     TaskName(context_->options, PsTask(*waits_for_.begin())), close_.step());
}

}  // namespace cohort
