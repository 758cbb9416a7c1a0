#ifndef COHORT_CHIEF_CORE_JOB_END_H_
#define COHORT_CHIEF_CORE_JOB_END_H_

#include <cstdint>
#include <string>
#include <utility>

#include "chief/core/outbox.h"

namespace cohort {

// The orderly end of a chief: when the last record is durable, the chief asks all tasks to end; one
// that is still being adopted, when it is.
//
//   running ──(1) Begin──► waits for `record` ──(2) SendShutdown──► ended
class JobEnd {
 public:
  explicit JobEnd(Outbox* outbox) : outbox_(outbox) {}

  // Edge (1).
  void Begin(const std::string& reason, bool job_finished, uint64_t record) {
    reason_ = reason;
    job_finished_ = job_finished;
    record_ = record;
  }
  bool begun() const { return record_ != 0; }
  bool job_finished() const { return job_finished_; }
  // True if the record of the end is durable.
  bool journaled(uint64_t durable_record) const { return durable_record >= record_; }
  // Edge (2), for one task, which this chief has adopted: others do not listen to it.
  void SendShutdown(Task task) const {
    v1::ShutdownTask shutdown;
    shutdown.set_reason(reason_);
    shutdown.set_job_finished(job_finished_);
    if (task.role == Role::kWorker) {
      v1::ChiefToWorker to_worker;
      *to_worker.mutable_shutdown() = std::move(shutdown);
      outbox_->ToWorker(task.index, std::move(to_worker));
    } else {
      v1::ChiefToPs to_ps;
      *to_ps.mutable_shutdown() = std::move(shutdown);
      outbox_->ToPs(task.index, std::move(to_ps));
    }
  }

 private:
  Outbox* const outbox_;
  uint64_t record_ = 0;  // the last one of this incarnation; 0: not begun
  std::string reason_;
  bool job_finished_ = false;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_JOB_END_H_
