#ifndef COHORT_CHIEF_JOB_STREAM_LOG_H_
#define COHORT_CHIEF_JOB_STREAM_LOG_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/checkpoint/checkpoint_directory.h"
#include "proto/checkpoint.pb.h"

namespace cohort {

// In a checkpoint directory.
inline constexpr char kStreamDirectory[] = "stream";

// The durable list of the files of a stream, in the order in which the chief has taken them: which
// places read which records. The chief adds a file before any closure reads it, and never changes
// the places of a file. So a place means the same records after every restart and rollback, and the
// position of a checkpoint, which is a place, is a position in the stream.
//
//   CHECKPOINT_DIR/stream/segment-000000000001.json   a StreamSegment: files in their order
//   CHECKPOINT_DIR/stream/segment-000000000002.json   those that were added next
//
// A segment gets its name by link(2), which fails if the name exists. So if a chief does not know
// yet that it was replaced, only one of the two can add a segment. A base stands for the segments
// before it. Not thread-safe.
class StreamLog {
 public:
  struct Options {
    std::string directory;    // that of the checkpoints
    uint32_t batch_size = 0;  // for which blocks are cut
    MayWrite may_write;       // called before each write
  };
  // Reads the list. Errors: FailedPrecondition if its blocks were cut for another batch size;
  // DataLoss for a segment that cannot be read.
  static absl::StatusOr<std::unique_ptr<StreamLog>> Open(const Options& options);

  // In the order of their places. Dropped files are not among them.
  const std::vector<v1::StreamFile>& files() const { return files_; }
  // The first place that no file has.
  uint64_t next_place() const { return next_place_; }
  // Returns the state of the file when it was taken; null: it was not taken, or is dropped.
  const v1::StreamFile* Find(const std::string& path) const;

  // Gives the files, which TakeStreamFile has made, their places, and adds them. They are durable
  // when it returns. Errors: Aborted if another chief has added a segment; those of the disk, after
  // which the files are not in the list.
  absl::Status Append(std::vector<v1::StreamFile> files);

  // The list is too long in segments, or has grown much since it was compacted.
  bool compaction_is_due() const { return segments_ > kMostSegments; }
  // Writes a base of all files but those for which `drop` returns true, and removes older segments.
  // Errors: as Append.
  absl::Status Compact(absl::FunctionRef<bool(const v1::StreamFile&)> drop);

 private:
  static constexpr uint64_t kMostSegments = 256;

  explicit StreamLog(const Options& options);
  absl::Status Read();
  absl::Status Write(v1::StreamSegment segment);
  void Take(const v1::StreamSegment& segment);
  std::string PathOf(uint64_t number) const;

  const Options options_;
  const std::string directory_;
  std::vector<v1::StreamFile> files_;
  std::unordered_map<std::string, size_t> by_path_;
  uint64_t last_segment_ = 0;
  uint64_t segments_ = 0;  // since the last base
  uint64_t next_block_ = 0;
  uint64_t next_place_ = 0;
};

// Removes the list. Calls `may_write` before each deletion.
absl::Status DeleteStreamLog(const std::string& checkpoint_dir, const MayWrite& may_write);

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_STREAM_LOG_H_
