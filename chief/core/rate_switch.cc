#include "chief/core/rate_switch.h"

#include <algorithm>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/optimizers/learning_rates.h"

namespace cohort {
namespace {

void Add(const v1::LearningRate& rate, v1::LearningRates* rates) {
  auto* const all = rates->mutable_rates();
  const auto at = std::find_if(all->begin(), all->end(), [&](const v1::LearningRate& other) {
    return other.iteration() >= rate.iteration();
  });
  if (at != all->end() && at->iteration() == rate.iteration()) {
    *at = rate;
    return;
  }
  const auto position = static_cast<int>(at - all->begin());
  *all->Add() = rate;
  for (int i = all->size() - 1; i > position; --i) all->SwapElements(i, i - 1);
}

}  // namespace

v1::LearningRates RatesAfterRollback(const v1::LearningRates& cut, const v1::LearningRates& now) {
  v1::LearningRates rates = cut;
  for (const v1::LearningRate& rate : now.rates()) {
    if (rate.by_user()) Add(rate, &rates);
  }
  return rates;
}

void RateSwitch::Request(double rate, bool by_user, uint64_t iteration) {
  if (RateAt(rates_, iteration).value_or(-1) == rate) return;
  const bool chosen =
      !by_user &&
      std::any_of(rates_.rates().begin(), rates_.rates().end(), [&](const v1::LearningRate& other) {
        return other.by_user() && other.iteration() == iteration;
      });
  if (chosen) return;
  v1::LearningRate entry;
  entry.set_iteration(iteration);
  entry.set_rate(rate);
  entry.set_by_user(by_user);
  Add(entry, &rates_);
  v1::JournalRecord record;
  *record.mutable_learning_rates() = rates_;
  record_ = outbox_->Append(std::move(record));
  outbox_->effects()->Note("learning_rate_set",
                           fmt::format("to {} from iteration {}, by {}", rate, iteration,
                                       by_user ? "a user" : "a callback"));
}

void RateSwitch::OnJournaled(uint64_t record) {
  if (record_ == 0 || record < record_) return;
  record_ = 0;
  COHORT_CRASH_POINT("chief.rate.journaled");
  Send();
}

void RateSwitch::Send() {
  for (int ps = 0; ps < static_cast<int>(context_->options.ps.size()); ++ps) {
    if (!context_->options.ps[static_cast<size_t>(ps)].empty()) SendTo(ps);
  }
}

void RateSwitch::SendTo(int ps) {
  v1::ChiefToPs message;
  *message.mutable_learning_rates() = rates_;
  requests_[ps] = outbox_->AskPs(ps, std::move(message));
}

absl::Status RateSwitch::OnPsMessage(int ps, const v1::PsToChief& message) {
  const auto request = requests_.find(ps);
  if (request == requests_.end() || request->second != message.request()) return absl::OkStatus();
  requests_.erase(request);
  return Annotate(
      StatusFromProto(message.status()),
      fmt::format("{} could not take the learning rate", TaskName(context_->options, PsTask(ps))));
}

void RateSwitch::OnPsReturned(int ps) {
  if (requests_.contains(ps)) SendTo(ps);
}

void RateSwitch::Resume() {
  if (rates_.rates_size() > 0) Send();
}

void RateSwitch::RollBack(const v1::LearningRates& rates) {
  rates_ = rates;
  record_ = 0;
  requests_.clear();
}

std::string RateSwitch::Waiting() const {
  if (record_ != 0) return "waiting for the journal to have the learning rate";
  if (requests_.empty()) return "";
  std::string servers;
  for (const auto& [ps, request] : requests_) {
    servers += (servers.empty() ? "" : ", ") + TaskName(context_->options, PsTask(ps));
  }
  return fmt::format("waiting for {} to take the learning rate", servers);
}

}  // namespace cohort
