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

// The checkpoint directory that the chief and the servers share. It outlives every process. A file
// exists from the moment when it is durable. The code that ends a process decides whether bytes
// that were only written survive. A manifest exists completely or not at all.
class Disk {
 public:
  // One file of a server: the rows of its shards, by variable and first row.
  using ShardFile = std::map<std::pair<std::string, int64_t>, std::vector<uint8_t>>;

  // ---------------------------------------------------------------- journal
  // Takes the next generation above all existing ones and `heard`.
  uint64_t TakeGeneration(uint64_t heard);
  // Empties the directory, as if no chief had used it.
  void Empty();
  void Append(uint64_t generation, v1::JournalRecord record) {
    journals_[generation].push_back(std::move(record));
  }
  // The two steps of Journal::StartSegment. The first one is atomic, and the process may die after
  // either.
  void StartSegment(uint64_t generation, std::vector<v1::JournalRecord> records) {
    journals_[generation] = std::move(records);
  }
  void DeleteOlderSegments(uint64_t generation) {
    journals_.erase(journals_.begin(), journals_.lower_bound(generation));
  }
  // Like Journal::ReadAll: records that an older chief appended after the newer one had begun do
  // not count.
  std::vector<v1::JournalRecord> ReadJournal() const;
  // The state that a chief that starts now would recover.
  absl::StatusOr<Recovered> RecoverNow() const;

  // ---------------------------------------------------------------- checkpoints
  void WriteShards(const std::string& directory, uint32_t ps, ShardFile file);
  // Commits the checkpoint, and deletes those beyond the newest `keep`, but never the best one.
  void Commit(const std::string& directory, const v1::Manifest& manifest, size_t keep);
  absl::StatusOr<v1::Manifest> Manifest(const std::string& path) const;
  // The path of the newest manifest; "" if there is none.
  std::string Newest() const;
  // The newest one of a timeline.
  std::optional<std::string> NewestOf(uint64_t timeline) const;
  std::unique_ptr<ShardSource> Open(const std::string& path) const;
  // Reads a whole float32 variable from a checkpoint.
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
