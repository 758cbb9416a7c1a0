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

// The journal's records, as they were read.
struct JournalContents {
  std::string fingerprint;  // of the files, before they were read: Journal::Fingerprint
  std::vector<v1::JournalRecord> records;
};

// Reads the journal in `directory` of the checkpoints in `checkpoint_dir`, and checks that it has
// the records that the newest of them names. Errors: Journal::ReadAll's.
absl::StatusOr<JournalContents> ReadJournalOf(const std::string& checkpoint_dir,
                                              const std::string& directory);

// The chief's journal on disk, on a thread of its own: records that come while others are being
// made durable share the next fsync. Starts a new segment behind each committed checkpoint, and
// when kSegmentBytes have been appended. Callbacks come on that thread.
class JournalThread {
 public:
  static constexpr uint64_t kSegmentBytes = 16'000'000;

  struct Callbacks {
    std::function<void(absl::StatusOr<uint64_t>)> on_generation;
    std::function<void(absl::StatusOr<Recovered>)> on_recovered;
    std::function<void(uint64_t record)> on_durable;
    // The disk refuses records. The thread tries again until it succeeds, unless `broken`. Called
    // at once, then twice a minute.
    std::function<void(const absl::Status& status, bool broken)> on_error;
    // A new segment was due and could not be started; the old one is still in use. Called at most
    // twice a minute, and the thread tries again as often. May be empty.
    std::function<void(const absl::Status& status)> on_segment_error;
    // Called before each write: an error if the directory belongs to this chief no longer. May be
    // empty.
    std::function<absl::Status()> check;
    // `check` has failed: nothing is written any more.
    std::function<void(const absl::Status& status)> on_lost;
  };

  // `directory` holds the journal of the checkpoints in `checkpoint_dir`. `contents`: of that
  // journal, if it was read before; Read then reads it again only if it has changed.
  JournalThread(std::string checkpoint_dir, std::string directory, Callbacks callbacks,
                JournalContents contents = {});
  // As EndUntil, without a deadline.
  ~JournalThread();

  // Writes what is queued (once), then ends. False: the disk does not answer by the deadline; the
  // destructor still waits for it. From one thread at a time.
  [[nodiscard]] bool EndUntil(TimePoint deadline);

  // Takes a generation above `heard` and that of the newest checkpoint; on_generation follows.
  void TakeGeneration(uint64_t heard);
  // on_recovered follows, with the state that the journal and the newest checkpoint give.
  void Read();
  void Append(v1::JournalRecord record);

  int64_t fsyncs() const;

 private:
  void Run();
  void Write(const std::vector<v1::JournalRecord>& records);
  // Follows records that have become durable, and starts a new segment when one is due.
  void Follow(const std::vector<v1::JournalRecord>& records, Journal* own);
  absl::Status StartSegment(Journal* own);
  // False once the directory does not belong to this chief any more.
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

  // Used by the thread alone.
  JournalContents contents_;
  JournalState state_;        // of the records that are durable
  absl::Status state_error_;  // not OK: state_ lacks records, and gives no base any more
  bool recovered_ = false;    // state_ has what was read
  bool begun_ = false;        // this incarnation's first segment is durable
  bool segment_due_ = false;  // a checkpoint was committed
  TimePoint next_segment_try_;
  bool lost_ = false;

  std::thread thread_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_JOURNAL_THREAD_H_
