#include "common/tablet/checkpoint_store.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/shard_names.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

class CheckpointSource : public ShardSource {
 public:
  explicit CheckpointSource(std::unique_ptr<CheckpointReader> reader)
      : reader_(std::move(reader)) {}

  absl::Status ReadRows(const std::string& variable, const std::string& slot, DType dtype,
                        uint64_t row_begin, uint64_t rows, std::span<uint8_t> out) override {
    return reader_->ReadRows(variable, slot, dtype, row_begin, rows, out);
  }
  absl::StatusOr<RestoredTablet> Tablet(const v1::Layout& layout, uint32_t tablet) override {
    return RestoreTablet(reader_->manifest(), layout, tablet);
  }

 private:
  const std::unique_ptr<CheckpointReader> reader_;
};

class FileOfValues : public InitialValues {
 public:
  explicit FileOfValues(std::unique_ptr<SafetensorsReader> reader) : reader_(std::move(reader)) {}

  absl::Status ReadRows(const ShardInfo& shard, uint64_t row_begin, uint64_t rows,
                        std::span<uint8_t> out) override {
    const TensorInfo* const tensor = reader_->Find(shard.variable);
    if (tensor == nullptr) return absl::OkStatus();
    if (tensor->dtype != shard.dtype || tensor->dims != shard.dims) {
      return DataLoss("{}: \"{}\" has the type {} and the shape {}, and the variable has {} and {}",
                      reader_->path(), shard.variable, DTypeName(tensor->dtype),
                      DimsToString(tensor->dims), DTypeName(shard.dtype), DimsToString(shard.dims));
    }
    const uint64_t begin = row_begin * shard.row_bytes();
    return reader_->ReadBytes(*tensor, begin, rows * shard.row_bytes(), out.data());
  }

 private:
  const std::unique_ptr<SafetensorsReader> reader_;
};

// Calls visit(shard, slot) for every tensor of the job in the order of the file; slot -1: the
// values.
template <typename Visit>
absl::Status ForEachTensor(SnapshotJob* job, const Visit& visit) {
  for (TabletSnapshot& tablet : job->tablets) {
    for (ShardSnapshot& shard : tablet.shards) {
      if (shard.info->rows == 0) continue;
      for (int slot = -1; slot < static_cast<int>(shard.info->slots.size()); ++slot) {
        COHORT_RETURN_IF_ERROR(visit(shard, slot));
      }
    }
  }
  return absl::OkStatus();
}

SafetensorsWriter::Entry EntryOf(const ShardSnapshot& shard, int slot) {
  const ShardInfo& info = *shard.info;
  ShardTensorName name;
  name.variable = info.variable;
  if (slot >= 0) name.slot = info.slots[static_cast<size_t>(slot)].name;
  name.row_begin = static_cast<uint64_t>(info.row_begin);
  name.row_end = static_cast<uint64_t>(info.row_begin + info.rows);
  return {name.ToString(), info.dtype, PieceDims(info.dims, static_cast<uint64_t>(info.rows))};
}

absl::Status WriteTensor(SnapshotJob* job, ShardSnapshot* shard, int slot,
                         SafetensorsWriter* writer) {
  for (ShardBlock& block : shard->blocks) {
    if (job->cancelled.load(std::memory_order_relaxed)) {
      return Cancelled("cut {} was dropped", job->cut);
    }
    BufferRef* const buffer = slot < 0 ? &block.values : &block.slots[slot];
    COHORT_RETURN_IF_ERROR(writer->Append((*buffer)->data(), (*buffer)->size()));
    job->Drop(buffer);
  }
  COHORT_CRASH_POINT("ps.snapshot.writing");
  return absl::OkStatus();
}

// Creates only the directory of this checkpoint. If the directory of all checkpoints is gone, a new
// one with its name would be a different directory.
absl::Status MakeCheckpointDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
  if (errno != EEXIST) return ErrnoStatus("cannot make the directory", path, errno);
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) return ErrnoStatus("cannot look at", path, errno);
  if (S_ISDIR(info.st_mode)) return absl::OkStatus();
  return FailedPrecondition("{} is {}, not a directory", path,
                            S_ISREG(info.st_mode) ? "a file" : FileTypeName(info.st_mode));
}

}  // namespace

absl::StatusOr<std::vector<v1::SnapshotFile>> CheckpointStore::Write(SnapshotJob* job) {
  std::vector<SafetensorsWriter::Entry> entries;
  COHORT_RETURN_IF_ERROR(ForEachTensor(job, [&](const ShardSnapshot& shard, int slot) {
    entries.push_back(EntryOf(shard, slot));
    return absl::OkStatus();
  }));
  std::vector<v1::SnapshotFile> files;
  if (entries.empty()) return files;
  COHORT_RETURN_IF_ERROR(MakeCheckpointDirectory(job->directory));
  v1::SnapshotFile& file = files.emplace_back();
  file.set_name(fmt::format("ps-{}.safetensors", job->ps));
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
                          SafetensorsWriter::Create(JoinPath(job->directory, file.name()), entries,
                                                    {{"cohort", "shards"}}));
  COHORT_RETURN_IF_ERROR(ForEachTensor(job, [&](ShardSnapshot& shard, int slot) {
    return WriteTensor(job, &shard, slot, writer.get());
  }));
  for (const TabletSnapshot& tablet : job->tablets) file.add_tablets(tablet.cut->tablet());
  job->DropAll();
  COHORT_ASSIGN_OR_RETURN(const SafetensorsWriter::Result result,
                          writer->Finish([job](uint64_t bytes) { job->Synced(bytes); }));
  file.set_bytes(result.bytes);
  file.set_crc32(result.crc32);
  return files;
}

absl::StatusOr<std::unique_ptr<ShardSource>> CheckpointStore::Open(const std::string& manifest) {
  CheckpointReader::Options options;
  options.verify_checksums = false;
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader,
                          CheckpointReader::Open(manifest, options));
  return std::make_unique<CheckpointSource>(std::move(reader));
}

absl::StatusOr<std::unique_ptr<InitialValues>> CheckpointStore::OpenValues(
    const std::string& path) {
  COHORT_ASSIGN_OR_RETURN(auto reader, SafetensorsReader::Open(path));
  return std::make_unique<FileOfValues>(std::move(reader));
}

absl::Status CheckpointStore::CheckDirectory(const std::string& directory,
                                             const std::string& token) {
  return CheckDirectoryToken(directory, token);
}

}  // namespace cohort
