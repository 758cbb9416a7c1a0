#ifndef COHORT_CHIEF_API_JOURNAL_THREAD_H_
#define COHORT_CHIEF_API_JOURNAL_THREAD_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "chief/core/journal_state.h"
#include "chief/core/recovery.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/checkpoint/journal.h"

namespace cohort {

// The records that were read from a journal.
struct JournalContents {
  std::string fingerprint;  // Journal::Fingerprint of the files before they were read
  std::vector<v1::JournalRecord> records;
};

// Reads the journal in `directory`, which belongs to the checkpoints in `checkpoint_dir`. Checks
// that it has the records that the newest checkpoint names. Errors: Journal::ReadAll's.
absl::StatusOr<JournalContents> ReadJournalOf(const std::string& checkpoint_dir,
                                              const std::string& directory);

// Writes the chief's journal on its own thread. Records that arrive during an fsync share the next
// fsync. The thread starts a new segment after each committed checkpoint, and when kSegmentBytes
// have been appended. It also runs the callbacks.
class JournalThread {
 public:
  static constexpr uint64_t kSegmentBytes = 16'000'000;

  struct Callbacks {
    std::function<void(absl::StatusOr<uint64_t>)> on_generation;
    std::function<void(absl::StatusOr<Recovered>)> on_recovered;
    std::function<void(uint64_t record)> on_durable;
    // The disk refuses records. Unless `broken`, the thread tries again until it succeeds. Called
    // at once, then twice a minute.
    std::function<void(const absl::Status& status, bool broken)> on_error;
    // A new segment was due and could not be started; the old one stays in use. Called at most
    // twice a minute, and the thread tries again as often. May be empty.
    std::function<void(const absl::Status& status)> on_segment_error;
    // Called before each write. Returns an error if the directory no longer belongs to this chief.
    // May be empty.
    std::function<absl::Status()> check;
    // `check` has failed: the thread writes nothing anymore.
    std::function<void(const absl::Status& status)> on_lost;
  };

  // `directory` holds the journal of the checkpoints in `checkpoint_dir`. `contents`: the journal's
  // contents if the caller has read them; then Read reads the files again only if they have
  // changed.
  JournalThread(std::string checkpoint_dir, std::string directory, Callbacks callbacks,
                JournalContents contents = {});
  // Does the same as EndUntil without a deadline.
  ~JournalThread();

  // Writes the queued records (once), then ends the thread. Returns false if the disk does not
  // answer by the deadline; the destructor still waits for it. One thread at a time may call it.
  [[nodiscard]] bool EndUntil(TimePoint deadline);

  // Takes a generation above `heard` and above that of the newest checkpoint; on_generation
  // follows.
  void TakeGeneration(uint64_t heard);
  // Reads the state from the journal and the newest checkpoint; on_recovered follows.
  void Read();
  void Append(v1::JournalRecord record);

  int64_t fsyncs() const;

 private:
  void Run();
  void Write(const std::vector<v1::JournalRecord>& records);
  // Applies durable records to state_, and starts a new segment when one is due.
  void Follow(const std::vector<v1::JournalRecord>& records, Journal* own);
  absl::Status StartSegment(Journal* own);
  // Returns false if the directory no longer belongs to this chief.
  bool Check();
  std::shared_ptr<Journal> journal() const;
  absl::StatusOr<uint64_t> CreateJournal(uint64_t heard);
  absl::StatusOr<Recovered> ReadAll();
  absl::StatusOr<v1::Manifest> ManifestOf(const std::string& path) const;

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

  // Only the thread uses these.
  JournalContents contents_;
  JournalState state_;        // the durable records, applied
  absl::Status state_error_;  // not OK: state_ lacks records and has no base record
  bool recovered_ = false;    // state_ has the records that were read
  bool begun_ = false;        // this incarnation's first segment is durable
  bool segment_due_ = false;  // a checkpoint was committed
  TimePoint next_segment_try_;
  bool lost_ = false;

  std::thread thread_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_JOURNAL_THREAD_H_
