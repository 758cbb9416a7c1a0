#ifndef COHORT_COMMON_CHECKPOINT_JOURNAL_H_
#define COHORT_COMMON_CHECKPOINT_JOURNAL_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/checkpoint/file.h"

namespace cohort::v1 {
class JournalRecord;
}

namespace cohort {

// A record that was durable once, and who says so.
struct JournalPosition {
  uint64_t generation = 0;  // its file
  uint64_t record = 0;      // 0: nothing is said
  std::string said_by;      // "/c/ckpt-1-1-3/manifest.json"
};

// The journal on disk: files journal-<generation> in `directory`, one per life of the chief. On
// disk, little-endian:
//
//   repeated { uint32 length, uint32 crc32 of the bytes, bytes of a v1.JournalRecord }
//
// A life writes only its own file, so a torn tail (a partial record, or a bad checksum with no
// whole record behind it) is cut off by leaving it unread; damage before the tail is DataLoss that
// names file and offset. Record numbers are consecutive over all generations: a gap is DataLoss
// too. A chief that was fenced may still have written to its own file after its successor took
// over; what an older generation has at or above the first number of a newer one is therefore not
// part of the journal.
//
// What was cut off at the end of a record looks like a tail that was never written. So more is
// asked of the newest files: generation-<n> is empty until journal-<n> is there, durably, so that a
// file that is missing is found; and a manifest names the last record that was durable as it was
// written (JournalPosition). A loss behind the newest manifest's record alone, in the newest file,
// is found by nothing. All files may be gone together: the job goes on from a checkpoint then.
//
// Thread-safe. Records appended by several threads at a time share one fsync.
class Journal {
 public:
  // Creates generation-<n> exclusively with n one above every generation and journal present: this
  // is how a chief takes a generation. Errors: AlreadyExists where another chief was faster;
  // DataLoss where a file has the last number there is.
  static absl::StatusOr<std::unique_ptr<Journal>> Create(const std::string& directory);

  // The highest generation that was taken in `directory`; 0: none.
  static absl::StatusOr<uint64_t> LastGeneration(const std::string& directory);

  // All records of all generations in `directory`, in order. Empty where there is no file. `held`
  // must be known before the call. Errors: DataLoss, with what can be done: damage, or a part that
  // is missing.
  static absl::StatusOr<std::vector<v1::JournalRecord>> ReadAll(const std::string& directory,
                                                                const JournalPosition& held = {});

  ~Journal();
  uint64_t generation() const { return generation_; }
  // Appends a record, which is durable when this returns OK. Errors: ResourceExhausted (disk full:
  // nothing of this record stays in the file, a later Append may succeed), others. After an fsync that failed otherwise, or a tail that could not be
  // removed, every later one fails too: what is on the disk is no longer known.
  absl::Status Append(const v1::JournalRecord& record);
  // Appends several: they are durable together or, after an error, a prefix of them is.
  absl::Status AppendAll(std::span<const v1::JournalRecord> records);
  const std::string& path() const { return file_->path(); }
  int64_t fsyncs() const { return fsyncs_.load(std::memory_order_relaxed); }

 private:
  // A call that waits until the file is durable to `end`; or what it wrote was cut off again.
  struct Waiting {
    uint64_t end = 0;
    bool cut = false;
  };
  Journal(std::unique_ptr<DurableFile> file, uint64_t generation);
  absl::Status Write(const std::string& bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnSyncFailed(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status SyncTo(uint64_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t generation_;
  std::atomic<int64_t> fsyncs_{0};

  mutable Mutex mu_;
  CondVar synced_;
  // The one that syncs does so without the lock; others only append meanwhile.
  const std::unique_ptr<DurableFile> file_;
  uint64_t durable_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool syncing_ ABSL_GUARDED_BY(mu_) = false;
  std::list<Waiting*> waiting_ ABSL_GUARDED_BY(mu_);
  absl::Status why_cut_ ABSL_GUARDED_BY(mu_);
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_JOURNAL_H_
