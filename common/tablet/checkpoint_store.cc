#include "common/tablet/checkpoint_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/shard_names.h"
#include "common/tensor/table_rows.h"
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
  absl::Status ReadTable(const ShardInfo& shard, cohort::Tablet::RowAdder add) override {
    std::vector<std::string> slots;
    for (const SlotInfo& slot : shard.slots) slots.push_back(slot.name);
    return reader_->ReadTable(shard.variable, slots, shard.dtype,
                              static_cast<uint64_t>(shard.row_begin),
                              static_cast<uint64_t>(shard.rows), add);
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

// The rows of a table that exist, in the order in which files have them.
struct PlacedRow {
  int64_t row = 0;  // its number in the shard
  int64_t place = 0;
};

std::vector<PlacedRow> SortedRows(const ShardSnapshot& shard) {
  std::vector<PlacedRow> rows;
  for (const ShardBlock& block : shard.blocks) {
    const auto* const names = reinterpret_cast<const int64_t*>(block.names->data());
    for (int64_t i = 0; i < block.rows; ++i) {
      if (names[i] >= 0) rows.push_back({names[i], block.row_begin + i});
    }
  }
  std::ranges::sort(rows, {}, &PlacedRow::row);
  return rows;
}

// The tensors of a shard: its values, its slots and, of a table, the keys of its rows.
constexpr int kValues = -1;
constexpr int kKeys = -2;

// Calls visit(shard, slot) for every tensor of the job in the order of the file.
template <typename Visit>
absl::Status ForEachTensor(SnapshotJob* job, const Visit& visit) {
  for (TabletSnapshot& tablet : job->tablets) {
    for (ShardSnapshot& shard : tablet.shards) {
      if (shard.info->rows == 0) continue;
      for (int slot = shard.info->is_table() ? kKeys : kValues;
           slot < static_cast<int>(shard.info->slots.size()); ++slot) {
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
  if (slot == kKeys) name.slot = kKeysSlot;
  name.row_begin = static_cast<uint64_t>(info.row_begin);
  name.row_end = static_cast<uint64_t>(info.row_begin + info.rows);
  if (info.is_table()) {
    uint64_t rows = 0;
    for (const ShardBlock& block : shard.blocks) {
      const auto* const names = reinterpret_cast<const int64_t*>(block.names->data());
      rows += static_cast<uint64_t>(
          std::count_if(names, names + block.rows, [](int64_t row) { return row >= 0; }));
    }
    if (slot == kKeys) return {name.ToString(), DType::kInt64, {static_cast<int64_t>(rows)}};
    return {name.ToString(), info.dtype, PieceDims(info.dims, rows)};
  }
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

// The rows are gathered in pieces. Their blocks stay until all tensors are written.
absl::Status WriteTable(SnapshotJob* job, const ShardSnapshot& shard, int slot,
                        SafetensorsWriter* writer) {
  const size_t bytes = slot == kKeys ? sizeof(int64_t) : shard.info->row_bytes();
  const std::vector<PlacedRow> rows = SortedRows(shard);
  std::vector<uint8_t> piece;
  const size_t most = std::max<size_t>(1, ShardOptions::kBlockBytes / bytes);
  for (size_t begin = 0; begin < rows.size(); begin += most) {
    if (job->cancelled.load(std::memory_order_relaxed)) {
      return Cancelled("cut {} was dropped", job->cut);
    }
    const size_t count = std::min(most, rows.size() - begin);
    piece.resize(count * bytes);
    for (size_t i = 0; i < count; ++i) {
      const PlacedRow& row = rows[begin + i];
      const int64_t key = KeyOfRow(shard.info->row_begin + row.row);
      const auto in_block = [&](const ShardBlock& block) {
        const BufferRef& buffer = slot == kValues ? block.values : block.slots[slot];
        return buffer->data() + static_cast<size_t>(row.place - block.row_begin) * bytes;
      };
      // All blocks have the same number of places.
      const auto at = static_cast<size_t>(row.place / shard.blocks.front().rows);
      std::memcpy(
          piece.data() + i * bytes,
          slot == kKeys ? reinterpret_cast<const uint8_t*>(&key) : in_block(shard.blocks[at]),
          bytes);
    }
    COHORT_RETURN_IF_ERROR(writer->Append(piece.data(), piece.size()));
    job->Wrote(piece.size());
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
    if (shard.info->is_table()) return WriteTable(job, shard, slot, writer.get());
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
