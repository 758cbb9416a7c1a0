#ifndef COHORT_CHIEF_API_JOURNAL_THREAD_H_
#define COHORT_CHIEF_API_JOURNAL_THREAD_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "chief/core/recovery.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/checkpoint/journal.h"

namespace cohort {

// The journal in `directory`, of the checkpoints in `checkpoint_dir`, checked against what the
// newest of them says that it has. Errors: Journal::ReadAll's.
absl::StatusOr<std::vector<v1::JournalRecord>> ReadJournalOf(const std::string& checkpoint_dir,
                                                             const std::string& directory);

// The chief's journal on disk, on a thread of its own: records that come while one is being made
// durable share the next fsync. Callbacks come on that thread.
class JournalThread {
 public:
  struct Callbacks {
    std::function<void(absl::StatusOr<uint64_t>)> on_generation;
    std::function<void(absl::StatusOr<Recovered>)> on_recovered;
    std::function<void(uint64_t record)> on_durable;
    // The disk refuses. It is tried again until it succeeds, unless `broken`; told at once, then
    // twice a minute.
    std::function<void(const absl::Status& status, bool broken)> on_error;
    // Called before each write: an error if the directory belongs to this chief no longer. May be
    // empty.
    std::function<absl::Status()> check;
    // `check` has failed: nothing is written any more.
    std::function<void(const absl::Status& status)> on_lost;
  };

  // `directory` holds the journal of the checkpoints in `checkpoint_dir`.
  JournalThread(std::string checkpoint_dir, std::string directory, Callbacks callbacks);
  // As EndUntil, without a deadline.
  ~JournalThread();

  // Writes what is queued (once), then ends. False: the disk does not answer by the deadline; the
  // destructor still waits for it. From one thread at a time.
  [[nodiscard]] bool EndUntil(TimePoint deadline);

  // Takes a generation above `heard` and the newest checkpoint's; on_generation.
  void TakeGeneration(uint64_t heard);
  // on_recovered: what journal and newest checkpoint say.
  void Read();
  void Append(v1::JournalRecord record);

  int64_t fsyncs() const;

 private:
  void Run();
  void Write(std::vector<v1::JournalRecord>* records);
  // False from the first time on that the directory is not this chief's.
  bool Check();
  std::shared_ptr<Journal> journal() const;
  absl::StatusOr<uint64_t> CreateJournal(uint64_t heard);
  absl::StatusOr<Recovered> ReadAll() const;

  const std::string checkpoint_dir_;
  const std::string directory_;
  const Callbacks callbacks_;

  mutable Mutex mu_;
  CondVar changed_;
  CondVar end_reached_;
  bool take_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t heard_ ABSL_GUARDED_BY(mu_) = 0;
  bool read_ ABSL_GUARDED_BY(mu_) = false;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<v1::JournalRecord> queue_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Journal> journal_ ABSL_GUARDED_BY(mu_);
  bool lost_ = false;  // of the thread
  std::thread thread_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_JOURNAL_THREAD_H_
