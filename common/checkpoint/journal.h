#ifndef COHORT_COMMON_CHECKPOINT_JOURNAL_H_
#define COHORT_COMMON_CHECKPOINT_JOURNAL_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cohort::v1 {
class JournalRecord;
}

namespace cohort {

// Where the chief's protocol keeps what must survive it. The protocol code sees only this, so that the
// simulator can inject one with crashes and lost tails.
class JournalSink {
 public:
  virtual ~JournalSink() = default;
  // Appends a record; it is durable when this returns OK.
  virtual absl::Status Append(const v1::JournalRecord& record) = 0;
};

// The journal on disk: files journal-<generation> in `directory`, one per life of the chief. On disk:
//
//   repeated { uint32 length, uint32 crc32 of the bytes, bytes of a v1.JournalRecord }   little-endian
//
// A torn tail (a partial record, or a bad checksum with nothing after it) is cut off when it is opened
// again; damage before the tail is DataLoss that names file and offset.
class Journal : public JournalSink {
 public:
  // Creates generation-<n> exclusively with n one above every generation and journal present: this is
  // how a chief takes a generation. Errors: AlreadyExists where another chief was faster.
  static absl::StatusOr<std::unique_ptr<Journal>> Create(const std::string& directory);

  // All records of all generations in `directory`, in order. Empty where there is none.
  static absl::StatusOr<std::vector<v1::JournalRecord>> ReadAll(const std::string& directory);

  ~Journal() override;
  uint64_t generation() const { return generation_; }
  absl::Status Append(const v1::JournalRecord& record) override;
  int64_t fsyncs() const { return fsyncs_; }

 private:
  Journal(std::string path, int fd, uint64_t generation);
  std::string path_;
  int fd_;
  uint64_t generation_;
  int64_t fsyncs_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_JOURNAL_H_
