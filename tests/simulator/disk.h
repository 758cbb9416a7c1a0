#ifndef COHORT_TESTS_SIMULATOR_DISK_H_
#define COHORT_TESTS_SIMULATOR_DISK_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/recovery.h"
#include "common/checkpoint/manifest.h"
#include "common/tablet/shard_store.h"

namespace cohort::simulator {

// The checkpoint directory that chief and servers share: it outlives every process. A file exists
// from the moment it is durable (what a dead process had only written is gone, or not: the one who
// ends it says); a manifest is there or not, never half.
class Disk {
 public:
  // One file of a server: its shards' rows, by variable and first row.
  using ShardFile = std::map<std::pair<std::string, int64_t>, std::vector<uint8_t>>;

  // ---------------------------------------------------------------- journal
  // The next generation above all there are and `heard`.
  uint64_t TakeGeneration(uint64_t heard);
  // As a directory that nobody has used.
  void Empty();
  void Append(uint64_t generation, v1::JournalRecord record) {
    journals_[generation].push_back(std::move(record));
  }
  // As Journal::StartSegment, in two steps: the first one is atomic, and both may be the last.
  void StartSegment(uint64_t generation, std::vector<v1::JournalRecord> records) {
    journals_[generation] = std::move(records);
  }
  void DeleteOlderSegments(uint64_t generation) {
    journals_.erase(journals_.begin(), journals_.lower_bound(generation));
  }
  // As Journal::ReadAll: records that a former chief appended after the newer one had begun do not
  // count.
  std::vector<v1::JournalRecord> ReadJournal() const;
  // What a chief that starts now would make of it.
  absl::StatusOr<Recovered> RecoverNow() const;

  // ---------------------------------------------------------------- checkpoints
  void WriteShards(const std::string& directory, uint32_t ps, ShardFile file);
  // Makes the checkpoint exist, and deletes those beyond the newest `keep`, but never the best one.
  void Commit(const std::string& directory, const v1::Manifest& manifest, size_t keep);
  absl::StatusOr<v1::Manifest> Manifest(const std::string& path) const;
  // The path of the newest manifest; "" = there is none.
  std::string Newest() const;
  // The newest one of a timeline.
  std::optional<std::string> NewestOf(uint64_t timeline) const;
  std::unique_ptr<ShardSource> Open(const std::string& path) const;
  // A whole variable of float32 out of a checkpoint.
  std::vector<float> ReadVariable(const std::string& path, const std::string& variable) const;

  size_t commits() const { return commits_; }

 private:
  class Source;
  struct Checkpoint {
    std::string directory;
    v1::Manifest manifest;
  };
  const Checkpoint* Find(const std::string& path) const;

  uint64_t generation_ = 0;
  std::map<uint64_t, std::vector<v1::JournalRecord>> journals_;
  std::map<std::string, std::map<uint32_t, ShardFile>> shards_;  // by directory
  std::map<CheckpointId, Checkpoint> checkpoints_;
  size_t commits_ = 0;
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_DISK_H_
