#ifndef COHORT_COMMON_CHECKPOINT_JOURNAL_H_
#define COHORT_COMMON_CHECKPOINT_JOURNAL_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/file.h"

namespace cohort::v1 {
class JournalRecord;
}

namespace cohort {

// A record that was durable once, and the manifest that names it.
struct JournalPosition {
  uint64_t generation = 0;  // its file's generation
  uint64_t record = 0;      // 0: unknown
  std::string named_by;     // "/c/ckpt-1-1-3/manifest.json"
};

// The chief's journal on disk: one file journal-<generation> per incarnation of the chief.
//
//   journal-3       segment:  frame, frame, ...                        (little-endian)
//                   frame:    uint32 length, uint32 crc32 of the bytes, bytes of a v1.JournalRecord
//   journal-3.new   a segment that is being written and will replace journal-3
//   generation-3    the claim of generation 3; not empty from the moment that journal-3 exists
//
// Record numbers are consecutive over all segments and generations. A segment starts in one of
// three ways:
//
//   base(n)   stands for all records up to n; n + 1 follows. The first segment of every later
//             incarnation starts so, and every segment that replaces one of the same incarnation
//   record 1  the job's first segment
//   start     with from_manifest: the job continues from a checkpoint, without older records
//
// StartSegment writes the segment's first records to journal-<g>.new, syncs it, renames it to
// journal-<g>, syncs the directory, and only then deletes the files of older generations; 16 claims
// stay. So at every moment the newest file that is not empty is enough:
//
//   the chief dies ...                   a restart reads
//   before the rename                    the segment before it, which has all records
//   after the rename                     the new segment
//   before the old files are deleted     the new segment; the next one deletes them
//
// Later records are appended. A torn tail (a part of a record, or a bad checksum without a
// whole record after it) was never durable and is ignored. Other damage is DataLoss that names the
// file and the offset, and so is a gap in the numbers.
//
// A tail that was cut between two records looks like one that was never written. Two things find
// more losses: a claim that is not empty, without its journal; and the newest manifest, which names
// the last record that was durable when it was written (JournalPosition). Only the records after
// both the segment's first one and that position can be lost unnoticed. All files may be missing
// together: then the job continues from its newest checkpoint.
//
// Journals of older versions have no bases: all their files are read, in order. A chief that was
// fenced may have appended to its file after its successor had read it; records of an older
// generation from the first number of a newer one on do not count.
//
// Only fsyncs() is thread-safe.
class Journal {
 public:
  // Takes a generation: creates generation-<n> exclusively, with n one above all that are there.
  // Errors: AlreadyExists if another chief was faster; DataLoss if no number is left.
  static absl::StatusOr<std::unique_ptr<Journal>> Create(const std::string& directory);

  // The highest generation that was taken in `directory`; 0: none.
  static absl::StatusOr<uint64_t> LastGeneration(const std::string& directory);

  // The records that a restart needs, in order; empty if there are none. `held` must be known
  // before the call. Errors: DataLoss that says what is damaged or missing, and what to do; that of
  // CheckFormat (format_version.h) if a newer Cohort has written a segment.
  static absl::StatusOr<std::vector<v1::JournalRecord>> ReadAll(const std::string& directory,
                                                                const JournalPosition& held = {});

  // Names, identities and sizes of the files that are not empty: equal if no record was added.
  static absl::StatusOr<std::string> Fingerprint(const std::string& directory);

  ~Journal();
  uint64_t generation() const { return generation_; }

  // Appends records; they are durable together, or (after an error) none of them is. Starts the
  // first segment. Errors: ResourceExhausted (disk full; a later call may succeed), others. After a
  // failed fsync of another kind, or a tail that could not be removed, every later call fails too,
  // because the state of the disk is unknown.
  absl::Status AppendAll(std::span<const v1::JournalRecord> records);

  // Replaces this generation's segment by a new one that starts with these records. If the first
  // one is a base, deletes older generations. After an error the old segment is still there and in
  // use, unless broken().
  absl::Status StartSegment(std::span<const v1::JournalRecord> records);

  // Bytes after the first record of the segment.
  uint64_t bytes_after_base() const { return file_->bytes() - base_bytes_; }
  // Nothing can be appended any more.
  bool broken() const { return !broken_.ok(); }

  const std::string& path() const { return file_->path(); }
  int64_t fsyncs() const { return fsyncs_.load(std::memory_order_relaxed); }

 private:
  Journal(std::string directory, std::unique_ptr<DurableFile> file, uint64_t generation);
  absl::Status Sync(DurableFile* file);
  void DeleteOlder() const;

  const std::string directory_;
  const uint64_t generation_;
  std::atomic<int64_t> fsyncs_{0};
  std::unique_ptr<DurableFile> file_;
  uint64_t base_bytes_ = 0;  // size of the segment's first record
  absl::Status broken_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_JOURNAL_H_
