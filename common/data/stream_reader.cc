#include "common/data/stream_reader.h"

#include <absl/strings/match.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/status.h"
#include "common/data/stream_files.h"
#include "proto/data.pb.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// Blocks that are open or being opened. Closures that are repeated may need an older one.
constexpr size_t kMostBlocks = 4;
// Reads after which a block that was announced is not expected any more.
constexpr uint64_t kLongestWait = 4096;

}  // namespace

StreamReader::StreamReader(const v1::DatasetSpec& spec, std::vector<std::string> features,
                           const BatchReader::Options& options, const DataOptions& data)
    : spec_(std::make_unique<const v1::DatasetSpec>(spec)),
      names_(std::move(features)),
      options_(options),
      data_(data) {}

// A future of std::async waits for its thread.
StreamReader::~StreamReader() = default;

absl::StatusOr<StreamReader::Opened> StreamReader::Open(const v1::FilePart& part) const {
  if (IsLeftOut(part.path(), data_)) return Opened();
  return OpenPart(part);
}

absl::StatusOr<StreamReader::Opened> StreamReader::OpenPart(const v1::FilePart& part) const {
  const PartDataset of_part(*spec_, part, data_);
  const auto opened_part = Dataset::Open(*of_part.spec, of_part.options);
  COHORT_RETURN_IF_ERROR(opened_part.status());
  const std::shared_ptr<const Dataset>& dataset = *opened_part;
  if (dataset->num_records() != part.records()) {
    return InvalidArgument("{}: bytes [{}, {}) have {} records here and {} at the chief",
                           part.path(), part.begin(), part.end(), dataset->num_records(),
                           part.records());
  }
  BatchReader::Options options = options_;
  const auto found = dataset->FindFeatures(names_);
  if (!found.ok()) {
    // The error of a column that is not a number names the file.
    const bool has_path = absl::StrContains(found.status().message(), part.path());
    return has_path ? found.status() : Annotate(found.status(), part.path());
  }
  options.features = *found;
  Opened opened;
  for (const int feature : options.features) {
    opened.features.push_back(dataset->features()[static_cast<size_t>(feature)]);
  }
  COHORT_ASSIGN_OR_RETURN(opened.reader, BatchReader::Leased(dataset, *of_part.spec, options));
  return opened;
}

StreamReader::Block* StreamReader::Find(const Lease& lease) {
  std::unique_ptr<Block>& block = blocks_[lease.block];
  if (block == nullptr) {
    block = std::make_unique<Block>();
    block->used = reads_;
    block->path = lease.part->path();
    block->opening =
        std::async(std::launch::async, [this, part = *lease.part] { return Open(part); });
  }
  return block.get();
}

absl::Status StreamReader::CheckFeatures(const Block& block) {
  if (block.opened.reader == nullptr) return absl::OkStatus();
  if (features_.empty()) {
    features_ = block.opened.features;
    first_path_ = block.path;
  }
  for (size_t i = 0; i < features_.size(); ++i) {
    const FeatureType& is = block.opened.features[i];
    const FeatureType& due = features_[i];
    if (is.dtype == due.dtype && is.dims == due.dims) continue;
    return InvalidArgument(
        "{}: the column \"{}\" is {} {}, and in {} it is {} {}: all files of a stream have the "
        "same "
        "columns",
        block.path, due.name, DTypeName(is.dtype), DimsToString(is.dims), first_path_,
        DTypeName(due.dtype), DimsToString(due.dims));
  }
  return absl::OkStatus();
}

absl::Status StreamReader::Finish(Block* block) {
  if (!block->opening.valid()) return absl::OkStatus();
  COHORT_ASSIGN_OR_RETURN(block->opened, block->opening.get());
  return CheckFeatures(*block);
}

void StreamReader::DropOld() {
  while (blocks_.size() > kMostBlocks) {
    auto oldest = blocks_.end();
    for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
      const Block& block = *it->second;
      if (block.used == reads_) continue;  // it is the one that is read now
      if (block.opening.valid() && reads_ - block.used < kLongestWait) continue;
      if (oldest == blocks_.end() || it->second->used < oldest->second->used) oldest = it;
    }
    if (oldest == blocks_.end()) return;
    blocks_.erase(oldest);
  }
}

void StreamReader::Announce(const Lease& lease) {
  Block* const block = Find(lease);
  if (block->opening.valid() &&
      block->opening.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    return;
  }
  // Read reports the error, and opens the block again.
  if (!Finish(block).ok()) {
    blocks_.erase(lease.block);
    return;
  }
  if (block->opened.reader == nullptr) return;
  block->opened.reader->Announce(lease.block, lease.begin, lease.end);
}

absl::Status StreamReader::Read(const Lease& lease, BatchReader::Batch* batch) {
  absl::Status read = ReadBlock(lease, batch);
  const std::string& path = lease.part->path();
  if (!read.ok() && IsLeftOut(path, data_)) {
    if (Block* const block = Find(lease); !block->opening.valid()) block->opened = {};
    *batch = {};
    return absl::OkStatus();
  }
  const v1::FilePart& part = *lease.part;
  return AdviseToSkip(
      std::move(read), path, data_,
      part.begin() > part.head()
          ? fmt::format("lines and records are counted from byte {} of the file; ", part.begin())
          : "");
}

absl::Status StreamReader::ReadBlock(const Lease& lease, BatchReader::Batch* batch) {
  Block* const block = Find(lease);
  block->used = ++reads_;
  DropOld();
  if (const absl::Status open = Finish(block); !open.ok()) {
    blocks_.erase(lease.block);
    return open;
  }
  if (block->opened.reader == nullptr) {
    *batch = {};
    return absl::OkStatus();
  }
  return block->opened.reader->Read(lease.block, lease.begin, lease.end, batch);
}

}  // namespace cohort
