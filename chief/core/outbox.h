#ifndef COHORT_CHIEF_CORE_OUTBOX_H_
#define COHORT_CHIEF_CORE_OUTBOX_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "chief/core/core_types.h"

namespace cohort {

// All parts of the core send through this object. It adds the generation to each message, and
// numbers requests and journal records.
class Outbox {
 public:
  explicit Outbox(CoreEffects* effects) : effects_(effects) {}

  void SetGeneration(uint64_t generation) { generation_ = generation; }
  uint64_t generation() const { return generation_; }  // 0: none taken yet

  void ToWorker(int worker, v1::ChiefToWorker message) {
    message.set_generation(generation_);
    effects_->SendToWorker(worker, std::move(message));
  }
  // Sends with a new request number, and returns it. The answer has the same number.
  uint64_t AskWorker(int worker, v1::ChiefToWorker message) {
    message.set_request(++request_);
    ToWorker(worker, std::move(message));
    return request_;
  }
  // The same for a message whose other part, `rest`, many workers get.
  uint64_t AskWorker(int worker, v1::ChiefToWorker message,
                     std::shared_ptr<const std::string> rest) {
    message.set_request(++request_);
    message.set_generation(generation_);
    effects_->SendSharedToWorker(worker, std::move(message), std::move(rest));
    return request_;
  }
  void ToPs(int ps, v1::ChiefToPs message) {
    message.set_generation(generation_);
    effects_->SendToPs(ps, std::move(message));
  }
  uint64_t AskPs(int ps, v1::ChiefToPs message) {
    message.set_request(++request_);
    ToPs(ps, std::move(message));
    return request_;
  }

  // Appends a record under the next number, and returns the number.
  uint64_t Append(v1::JournalRecord record) {
    record.set_number(next_record_);
    if (counters_.has_value()) *record.mutable_counters() = *std::exchange(counters_, std::nullopt);
    effects_->AppendJournal(std::move(record));
    return next_record_++;
  }
  // The next record also journals the job's counters.
  void AttachCounters(v1::JobCounters counters) { counters_ = std::move(counters); }
  void SetNextRecord(uint64_t number) { next_record_ = number; }
  uint64_t next_record() const { return next_record_; }

  CoreEffects* effects() const { return effects_; }

 private:
  CoreEffects* const effects_;
  uint64_t generation_ = 0;
  uint64_t request_ = 0;
  uint64_t next_record_ = 1;
  std::optional<v1::JobCounters> counters_;  // for the next record
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_OUTBOX_H_
