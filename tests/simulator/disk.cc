#include "tests/simulator/disk.h"

#include <algorithm>
#include <cstring>

#include "chief/core/recovery_test_util.h"
#include "common/base/status.h"
#include "proto/checkpoint.pb.h"

namespace cohort::simulator {

uint64_t Disk::TakeGeneration(uint64_t heard) {
  generation_ = std::max(generation_, heard) + 1;
  return generation_;
}

void Disk::Empty() {
  generation_ = 0;
  journals_.clear();
  checkpoints_.clear();
  shards_.clear();
}

std::vector<v1::JournalRecord> Disk::ReadJournal() const {
  std::vector<v1::JournalRecord> all;
  for (const auto& [generation, records] : journals_) {
    if (records.empty()) continue;
    if (records.front().has_base()) all.clear();
    while (!all.empty() && all.back().number() >= records.front().number()) all.pop_back();
    all.insert(all.end(), records.begin(), records.end());
  }
  return all;
}

absl::StatusOr<Recovered> Disk::RecoverNow() const {
  return Recover(
      ReadJournal(), [this](const std::string& path) { return Manifest(path); }, Newest());
}

// ------------------------------------------------------------------ checkpoints

void Disk::WriteShards(const std::string& directory, uint32_t ps, ShardFile file) {
  shards_[directory][ps] = std::move(file);
}

void Disk::Commit(const std::string& directory, const v1::Manifest& manifest, size_t keep) {
  ++commits_;
  checkpoints_[IdOf(manifest)] = {directory, manifest};
  const auto best = CheckpointId::Parse(manifest.best().checkpoint());
  size_t surplus = checkpoints_.size() - std::min(keep, checkpoints_.size());
  for (auto it = checkpoints_.begin(); surplus > 0; --surplus) {
    if (best.has_value() && it->first == *best) {
      ++it;
      continue;
    }
    shards_.erase(it->second.directory);
    it = checkpoints_.erase(it);
  }
}

const Disk::Checkpoint* Disk::Find(const std::string& path) const {
  for (const auto& [id, checkpoint] : checkpoints_) {
    if (checkpoint.directory + "/" + kManifestName == path) return &checkpoint;
  }
  return nullptr;
}

absl::StatusOr<v1::Manifest> Disk::Manifest(const std::string& path) const {
  const Checkpoint* const found = Find(path);
  if (found == nullptr) return NotFound("{}", path);
  return found->manifest;
}

std::string Disk::Newest() const {
  return checkpoints_.empty() ? "" : checkpoints_.rbegin()->second.directory + "/" + kManifestName;
}

std::optional<std::string> Disk::NewestOf(uint64_t timeline) const {
  for (auto it = checkpoints_.rbegin(); it != checkpoints_.rend(); ++it) {
    if (it->first.timeline == timeline) return it->second.directory + "/" + kManifestName;
  }
  return std::nullopt;
}

// Reads rows from the shard files of one checkpoint.
class Disk::Source : public ShardSource {
 public:
  Source(const v1::Manifest& manifest, const std::map<uint32_t, ShardFile>& files)
      : manifest_(manifest), files_(files) {}

  absl::Status ReadRows(const std::string& variable, const std::string& slot, DType dtype,
                        uint64_t row_begin, uint64_t rows, std::span<uint8_t> out) override {
    if (!slot.empty()) return NotFound("{} has no slot {}", variable, slot);
    const size_t row_bytes = out.size() / std::max<uint64_t>(rows, 1);
    size_t found = 0;
    for (const auto& [ps, file] : files_) {
      for (const auto& [key, bytes] : file) {
        if (key.first != variable) continue;
        const auto first = static_cast<uint64_t>(key.second);
        const uint64_t begin = std::max(first, row_begin);
        const uint64_t end = std::min(first + bytes.size() / row_bytes, row_begin + rows);
        if (begin >= end) continue;
        std::memcpy(out.data() + (begin - row_begin) * row_bytes,
                    bytes.data() + (begin - first) * row_bytes, (end - begin) * row_bytes);
        found += end - begin;
      }
    }
    if (found != rows) return DataLoss("{}: {} of {} rows", variable, found, rows);
    return absl::OkStatus();
  }
  absl::StatusOr<RestoredTablet> Tablet(const v1::Layout& layout, uint32_t tablet) override {
    return RestoreTablet(manifest_, layout, tablet);
  }

 private:
  const v1::Manifest manifest_;
  const std::map<uint32_t, ShardFile> files_;
};

std::unique_ptr<ShardSource> Disk::Open(const std::string& path) const {
  const Checkpoint* const found = Find(path);
  if (found == nullptr) return nullptr;
  const auto files = shards_.find(found->directory);
  return std::make_unique<Source>(
      found->manifest, files == shards_.end() ? std::map<uint32_t, ShardFile>() : files->second);
}

std::vector<float> Disk::ReadVariable(const std::string& path, const std::string& name) const {
  const Checkpoint* const found = Find(path);
  if (found == nullptr) return {};
  for (const v1::VariableSpec& variable : found->manifest.layout().variables()) {
    if (variable.name() != name) continue;
    size_t elements = 1;
    for (const int64_t dim : variable.dims()) elements *= static_cast<size_t>(dim);
    std::vector<float> values(elements);
    const absl::Status read =
        Open(path)->ReadRows(name, "", DType::kFloat32, 0, static_cast<uint64_t>(variable.dims(0)),
                             {reinterpret_cast<uint8_t*>(values.data()), elements * sizeof(float)});
    return read.ok() ? values : std::vector<float>();
  }
  return {};
}

}  // namespace cohort::simulator
