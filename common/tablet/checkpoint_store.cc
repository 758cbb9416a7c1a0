#include "common/tablet/checkpoint_store.h"

#include <absl/functional/function_ref.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/shard_names.h"
#include "common/tablet/snapshot_rows.h"
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
  absl::Status ReadHashedRows(const ShardInfo& shard, const std::string& slot, int64_t row,
                              int64_t rows, std::span<uint8_t> out) override {
    return reader_->ReadHashedRows(shard.variable, slot, shard.dtype, *shard.hashed,
                                   {shard.part, row}, static_cast<uint64_t>(rows), out);
  }
  absl::Status ReadTable(const ShardInfo& shard, cohort::Tablet::RowAdder add,
                         cohort::Tablet::RowAdder add_counts) override {
    std::vector<std::string> slots = {""};
    for (const SlotInfo& slot : shard.slots) slots.push_back(slot.name);
    if (reader_->Find(shard.variable, kUpdatedSlot) != nullptr) slots.push_back(kUpdatedSlot);
    const auto begin = static_cast<uint64_t>(shard.row_begin);
    const auto rows = static_cast<uint64_t>(shard.rows);
    COHORT_RETURN_IF_ERROR(reader_->ReadTable(shard.variable, kKeysSlot, slots, begin, rows, add));
    const std::string counts[] = {kCountsSlot, kCountedSlot};
    return reader_->ReadTable(shard.variable, kCountedKeysSlot, counts, begin, rows, add_counts);
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

  absl::Status ReadRows(const ShardInfo& shard, int64_t row, int64_t rows,
                        std::span<uint8_t> out) override {
    const TensorInfo* const tensor = reader_->Find(shard.variable);
    if (tensor == nullptr) return absl::OkStatus();
    if (tensor->dtype != shard.dtype || tensor->dims != shard.dims) {
      return DataLoss("{}: \"{}\" has the type {} and the shape {}, and the variable has {} and {}",
                      reader_->path(), shard.variable, DTypeName(tensor->dtype),
                      DimsToString(tensor->dims), DTypeName(shard.dtype), DimsToString(shard.dims));
    }
    const auto read = [&](int64_t from, int64_t count, std::span<uint8_t> part) {
      const size_t row_bytes = shard.row_bytes();
      return reader_->ReadBytes(*tensor, static_cast<uint64_t>(from) * row_bytes,
                                static_cast<uint64_t>(count) * row_bytes, part.data());
    };
    if (!shard.hashed.has_value()) return read(shard.row_begin + row, rows, out);
    return ReadHashedShard(*shard.hashed, {shard.part, row}, shard.row_bytes(), out, read);
  }
  // The keys ascend by their rows, so those of the shard lie together.
  absl::Status ReadTable(const ShardInfo& shard, cohort::Tablet::RowAdder add) override {
    constexpr uint64_t kAtOnce = 8192;
    const TensorInfo* const values = reader_->Find(shard.variable);
    const TensorInfo* const keys = reader_->Find(fmt::format("{}@{}", shard.variable, kKeysSlot));
    if (values == nullptr) return absl::OkStatus();
    if (keys == nullptr || keys->dims.size() != 1 ||
        values->dims != PieceDims(shard.dims, static_cast<uint64_t>(keys->dims[0])) ||
        values->dtype != shard.dtype || keys->dtype != DType::kInt64) {
      return DataLoss("{}: \"{}\" is no table of {} with a key for each row", reader_->path(),
                      shard.variable, DTypeName(shard.dtype));
    }
    const auto rows = static_cast<uint64_t>(keys->dims[0]);
    COHORT_ASSIGN_OR_RETURN(uint64_t at, FirstKey(*keys, shard.row_begin));
    std::vector<int64_t> numbers;
    std::vector<uint8_t> bytes;
    for (; at < rows; at += numbers.size()) {
      numbers.resize(std::min(kAtOnce, rows - at));
      COHORT_RETURN_IF_ERROR(reader_->ReadBytes(*keys, at * sizeof(int64_t),
                                                numbers.size() * sizeof(int64_t), numbers.data()));
      for (int64_t& number : numbers) number = RowOfKey(number) - shard.row_begin;
      const auto end = std::ranges::lower_bound(numbers, shard.rows);
      const bool last = end != numbers.end();
      numbers.erase(end, numbers.end());
      bytes.resize(numbers.size() * shard.row_bytes());
      COHORT_RETURN_IF_ERROR(
          reader_->ReadBytes(*values, at * shard.row_bytes(), bytes.size(), bytes.data()));
      const std::span<const uint8_t> tensors[] = {bytes};
      COHORT_RETURN_IF_ERROR(add(numbers, tensors));
      if (last) break;
    }
    return absl::OkStatus();
  }

 private:
  // The number of keys whose rows are before `row`.
  absl::StatusOr<uint64_t> FirstKey(const TensorInfo& keys, int64_t row) const {
    uint64_t low = 0, high = static_cast<uint64_t>(keys.dims[0]);
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      int64_t key = 0;
      COHORT_RETURN_IF_ERROR(reader_->ReadBytes(keys, middle * sizeof(key), sizeof(key), &key));
      (RowOfKey(key) < row ? low : high) = RowOfKey(key) < row ? middle + 1 : middle;
    }
    return low;
  }

  const std::unique_ptr<SafetensorsReader> reader_;
};

// The tensors of a shard beside its slots.
constexpr int kValues = -1;
constexpr int kKeys = -2;  // a table: these, one number for each row
constexpr int kUpdated = -3;
constexpr int kCountedKeys = -4;  // and these, for each row that is not admitted
constexpr int kCounts = -5;
constexpr int kCounted = -6;
constexpr int kChangedRows = -7;  // an increment: these of a dense range
constexpr int kRemovedKeys = -8;  // and these of a table

// Above this part of a shard's places, an increment has all of its rows: it is hardly larger, and
// its base may have fewer.
constexpr double kMostChanged = 0.75;

// One number for each item.
bool IsOfTable(int slot) { return slot <= kKeys; }

// What the file has of a shard.
struct ShardPlan {
  ShardSnapshot* shard = nullptr;
  bool by_rows = false;          // the file has single rows, not blocks: a table, or an increment
  std::vector<int64_t> places;   // by_rows: where they lie, in the order of the rows
  std::vector<int64_t> removed;  // an increment of a table: the rows that are gone, ascending
  std::vector<std::pair<int64_t, RowCount>> counts;  // a table: rows that are not admitted
  // A table with rows on disk: all of its rows. Null: none lies there.
  std::unique_ptr<SnapshotRows> merged;
  uint64_t merged_rows = 0;

  bool increment() const { return shard->changes != nullptr; }
};

// True if most places of a shard have changed.
bool MostChanged(const ShardSnapshot& shard) {
  int64_t places = 0;
  int64_t changed = 0;
  for (const ShardBlock& block : shard.blocks) places += block.rows;
  for (const std::vector<uint64_t>& bits : shard.changes->blocks) {
    for (const uint64_t word : bits) changed += std::popcount(word);
  }
  return static_cast<double>(changed) > kMostChanged * static_cast<double>(places);
}

// The rows of a table that go into the file, ascending: (row, place). They exist at the clock of
// the snapshot. Adds rows that have only become too old since the base to `gone`.
std::vector<std::pair<int64_t, int64_t>> SortedRows(const ShardSnapshot& shard,
                                                    std::vector<int64_t>* gone) {
  std::vector<std::pair<int64_t, int64_t>> rows;
  for (size_t b = 0; b < shard.blocks.size(); ++b) {
    const ShardBlock& block = shard.blocks[b];
    const bool unchanged = shard.changes != nullptr && !shard.changes->HasAny(b);
    if (unchanged && shard.rules->evict_after == 0) continue;
    const auto* const names = reinterpret_cast<const int64_t*>(block.names->data());
    const auto* const clocks =
        block.clocks ? reinterpret_cast<const uint64_t*>(block.clocks->data()) : nullptr;
    for (int64_t i = 0; i < block.rows; ++i) {
      if (names[i] < 0) continue;
      if (clocks != nullptr && shard.rules->IsGone(clocks[i], shard.clock)) {
        const bool in_base =
            shard.changes != nullptr && !shard.rules->IsGone(clocks[i], shard.changes->clock);
        if (in_base) gone->push_back(names[i]);
        continue;
      }
      if (shard.changes != nullptr && !shard.changes->Has(b, i)) continue;
      rows.emplace_back(names[i], block.row_begin + i);
    }
  }
  std::ranges::sort(rows);
  return rows;
}

void PlanTable(ShardPlan* plan) {
  std::vector<int64_t> gone;
  const auto rows = SortedRows(*plan->shard, &gone);
  plan->places.reserve(rows.size());
  for (const auto& [row, place] : rows) plan->places.push_back(place);
  if (!plan->increment()) return;
  const std::vector<int64_t>& removed = plan->shard->changes->removed;
  gone.insert(gone.end(), removed.begin(), removed.end());
  std::ranges::sort(gone);
  for (const int64_t row : gone) {
    if (!plan->removed.empty() && plan->removed.back() == row) continue;
    // One that exists again is among those that have changed.
    const auto again = std::ranges::lower_bound(rows, row, {}, &std::pair<int64_t, int64_t>::first);
    if (again == rows.end() || again->first != row) plan->removed.push_back(row);
  }
}

void PlanRange(ShardPlan* plan) {
  for (size_t b = 0; b < plan->shard->blocks.size(); ++b) {
    const ShardBlock& block = plan->shard->blocks[b];
    for (int64_t i = 0; i < block.rows; ++i) {
      if (plan->shard->changes->Has(b, i)) plan->places.push_back(block.row_begin + i);
    }
  }
}

// The rows that are counted and not gone at the clock of the snapshot, ascending.
std::vector<std::pair<int64_t, RowCount>> SortedCounts(const ShardSnapshot& shard) {
  std::vector<std::pair<int64_t, RowCount>> rows;
  for (const auto& part : shard.counts) {
    for (const auto& [row, count] : *part) {
      if (!shard.rules->IsGone(count.updated, shard.clock)) rows.emplace_back(row, count);
    }
  }
  std::ranges::sort(rows, {}, [](const auto& row) { return row.first; });
  return rows;
}

absl::StatusOr<std::vector<ShardPlan>> PlanShards(SnapshotJob* job) {
  std::vector<ShardPlan> plans;
  for (TabletSnapshot& tablet : job->tablets) {
    for (ShardSnapshot& shard : tablet.shards) {
      if (shard.info->rows == 0) continue;
      ShardPlan& plan = plans.emplace_back(ShardPlan{.shard = &shard});
      if (plan.increment() && MostChanged(shard)) shard.changes = nullptr;
      plan.by_rows = shard.info->is_table() || plan.increment();
      if (shard.info->is_table()) {
        if (shard.on_disk != nullptr) {
          plan.merged = std::make_unique<SnapshotRows>(shard);
          COHORT_ASSIGN_OR_RETURN(plan.merged_rows, SnapshotRows::Count(shard));
        } else {
          PlanTable(&plan);
        }
        if (shard.rules->min_count > 1) plan.counts = SortedCounts(shard);
      } else if (plan.increment()) {
        PlanRange(&plan);
      }
    }
  }
  return plans;
}

// The dims of `rows` rows of a variable, or of one of its slots.
Dims DimsOf(const ShardInfo& info, int slot, uint64_t rows) {
  Dims dims = PieceDims(info.dims, rows);
  if (slot >= 0 && info.slots[static_cast<size_t>(slot)].by_row && !dims.empty()) dims.resize(1);
  return dims;
}

// The tensors of a shard in the order of the file.
std::vector<int> TensorsOf(const ShardPlan& plan) {
  const ShardSnapshot& shard = *plan.shard;
  std::vector<int> tensors;
  if (shard.info->is_table()) {
    if (plan.increment()) tensors.push_back(kRemovedKeys);
    if (shard.rules->min_count > 1) {
      tensors.insert(tensors.end(), {kCounted, kCounts, kCountedKeys});
    }
    if (shard.rules->needs_clocks()) tensors.push_back(kUpdated);
    tensors.push_back(kKeys);
  } else if (plan.increment()) {
    tensors.push_back(kChangedRows);
  }
  for (int s = kValues; s < static_cast<int>(shard.info->slots.size()); ++s) tensors.push_back(s);
  return tensors;
}

size_t ItemsOf(const ShardPlan& plan, int slot) {
  if (slot == kRemovedKeys) return plan.removed.size();
  if (slot == kCountedKeys || slot == kCounts || slot == kCounted) return plan.counts.size();
  if (plan.merged != nullptr) return plan.merged_rows;
  return plan.by_rows ? plan.places.size() : static_cast<size_t>(plan.shard->info->rows);
}

SafetensorsWriter::Entry EntryOf(const ShardPlan& plan, int slot) {
  const ShardInfo& info = *plan.shard->info;
  ShardTensorName name;
  name.variable = info.variable;
  if (slot >= 0) name.slot = info.slots[static_cast<size_t>(slot)].name;
  if (slot == kKeys) name.slot = kKeysSlot;
  if (slot == kUpdated) name.slot = kUpdatedSlot;
  if (slot == kCountedKeys) name.slot = kCountedKeysSlot;
  if (slot == kCounts) name.slot = kCountsSlot;
  if (slot == kCounted) name.slot = kCountedSlot;
  if (slot == kChangedRows) name.slot = kChangedRowsSlot;
  if (slot == kRemovedKeys) name.slot = kRemovedKeysSlot;
  name.row_begin = static_cast<uint64_t>(info.row_begin);
  name.row_end = static_cast<uint64_t>(info.row_begin + info.rows);
  const size_t items = ItemsOf(plan, slot);
  if (IsOfTable(slot)) return {name.ToString(), DType::kInt64, {static_cast<int64_t>(items)}};
  return {name.ToString(), info.dtype, DimsOf(info, slot, items)};
}

absl::Status WriteBlocks(SnapshotJob* job, ShardSnapshot* shard, int slot,
                         SafetensorsWriter* writer) {
  for (ShardBlock& block : shard->blocks) {
    if (job->cancelled.load(std::memory_order_relaxed)) {
      return Cancelled("cut {} was dropped", job->cut);
    }
    BufferRef* const buffer = slot < 0 ? &block.values : &block.slots[slot];
    const auto s = static_cast<size_t>(std::max(slot, 0));
    if (slot >= 0 && shard->info->slots[s].is_bfloat16) {
      std::vector<uint8_t> stored(static_cast<size_t>(block.rows) *
                                  shard->info->stored_row_bytes(s));
      GiveStored(shard->info->slots[s], shard->info->dtype, (*buffer)->data(), stored);
      COHORT_RETURN_IF_ERROR(writer->Append(stored.data(), stored.size()));
    } else {
      COHORT_RETURN_IF_ERROR(writer->Append((*buffer)->data(), (*buffer)->size()));
    }
    job->Drop(buffer);
  }
  COHORT_CRASH_POINT("ps.snapshot.writing");
  return absl::OkStatus();
}

// All blocks but the last have the same number of places.
const ShardBlock& BlockOf(const ShardSnapshot& shard, int64_t place) {
  return shard.blocks[static_cast<size_t>(place / shard.blocks.front().rows)];
}

// Writes `count` items, which `copy`(index, to) gathers, in pieces.
absl::Status WriteItems(SnapshotJob* job, size_t count, size_t bytes, SafetensorsWriter* writer,
                        absl::FunctionRef<void(size_t, uint8_t*)> copy) {
  std::vector<uint8_t> piece;
  const size_t most = std::max<size_t>(1, ShardOptions::kBlockBytes / bytes);
  for (size_t begin = 0; begin < count; begin += most) {
    if (job->cancelled.load(std::memory_order_relaxed)) {
      return Cancelled("cut {} was dropped", job->cut);
    }
    piece.resize(std::min(most, count - begin) * bytes);
    for (size_t i = 0; i * bytes < piece.size(); ++i) copy(begin + i, piece.data() + i * bytes);
    COHORT_RETURN_IF_ERROR(writer->Append(piece.data(), piece.size()));
    job->Wrote(piece.size());
  }
  COHORT_CRASH_POINT("ps.snapshot.writing");
  return absl::OkStatus();
}

// Copies item `index` of a tensor that has one number for each.
void CopyNumber(const ShardPlan& plan, int slot, size_t index, uint8_t* to) {
  const ShardSnapshot& shard = *plan.shard;
  const int64_t begin = shard.info->row_begin;
  const auto set = [to](int64_t number) { std::memcpy(to, &number, sizeof(number)); };
  if (slot == kRemovedKeys) return set(KeyOfRow(begin + plan.removed[index]));
  if (slot == kCountedKeys) return set(KeyOfRow(begin + plan.counts[index].first));
  if (slot == kCounts) return set(static_cast<int64_t>(plan.counts[index].second.count));
  if (slot == kCounted) return set(static_cast<int64_t>(plan.counts[index].second.updated));
  const int64_t place = plan.places[index];
  if (slot == kChangedRows) return set(begin + place);
  const ShardBlock& block = BlockOf(shard, place);
  const BufferRef& numbers = slot == kKeys ? block.names : block.clocks;
  const int64_t number = reinterpret_cast<const int64_t*>(numbers->data())[place - block.row_begin];
  set(slot == kKeys ? KeyOfRow(begin + number) : number);
}

// A tensor of a table with rows on disk.
absl::Status WriteMerged(SnapshotJob* job, const ShardPlan& plan, int slot,
                         SafetensorsWriter* writer) {
  const ShardInfo& info = *plan.shard->info;
  const size_t bytes = IsOfTable(slot) ? sizeof(int64_t) : info.row_bytes();
  SnapshotRows::Walk walk(*plan.merged);
  uint64_t walked = 0;
  bool ended = false;
  const auto next = [&] {
    ended = ended || !walk.Next();
    if (!ended) ++walked;
    return !ended;
  };
  COHORT_RETURN_IF_ERROR(WriteItems(job, plan.merged_rows, bytes, writer, [&](size_t, uint8_t* to) {
    if (!next()) return;
    if (slot == kKeys) {
      const int64_t key = KeyOfRow(info.row_begin + walk.row());
      std::memcpy(to, &key, sizeof(key));
    } else if (slot == kUpdated) {
      const uint64_t clock = walk.clock();
      std::memcpy(to, &clock, sizeof(clock));
    } else {
      std::memcpy(to, walk.Tensor(slot), bytes);
    }
  }));
  next();
  COHORT_RETURN_IF_ERROR(walk.status());
  if (ended && walked == plan.merged_rows) return absl::OkStatus();
  return Internal("the table \"{}\" has {} rows or more, and {} were counted for the checkpoint",
                  info.variable, walked, plan.merged_rows);
}

absl::Status WriteTensor(SnapshotJob* job, const ShardPlan& plan, int slot,
                         SafetensorsWriter* writer) {
  const bool of_counts = slot == kCountedKeys || slot == kCounts || slot == kCounted;
  if (plan.merged != nullptr && !of_counts) return WriteMerged(job, plan, slot, writer);
  if (IsOfTable(slot)) {
    return WriteItems(job, ItemsOf(plan, slot), sizeof(int64_t), writer,
                      [&](size_t i, uint8_t* to) { CopyNumber(plan, slot, i, to); });
  }
  if (!plan.by_rows) return WriteBlocks(job, plan.shard, slot, writer);
  const ShardInfo& info = *plan.shard->info;
  const size_t bytes =
      slot >= 0 ? info.stored_row_bytes(static_cast<size_t>(slot)) : info.row_bytes();
  return WriteItems(job, plan.places.size(), bytes, writer, [&](size_t i, uint8_t* to) {
    const ShardBlock& block = BlockOf(*plan.shard, plan.places[i]);
    const auto at = static_cast<size_t>(plan.places[i] - block.row_begin);
    if (slot == kValues) {
      std::memcpy(to, block.values->data() + at * bytes, bytes);
      return;
    }
    const auto s = static_cast<size_t>(slot);
    const uint8_t* const from = block.slots[slot]->data() + at * info.slot_row_bytes(s);
    GiveStored(info.slots[s], info.dtype, from, {to, bytes});
  });
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
  COHORT_ASSIGN_OR_RETURN(std::vector<ShardPlan> plans, PlanShards(job));
  std::vector<SafetensorsWriter::Entry> entries;
  for (const ShardPlan& plan : plans) {
    for (const int slot : TensorsOf(plan)) entries.push_back(EntryOf(plan, slot));
    if (plan.increment()) job->ReleaseUnchanged(plan.shard);
  }
  std::vector<v1::SnapshotFile> files;
  if (entries.empty()) return files;
  COHORT_RETURN_IF_ERROR(MakeCheckpointDirectory(job->directory));
  v1::SnapshotFile& file = files.emplace_back();
  file.set_name(fmt::format("ps-{}.safetensors", job->ps));
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsWriter> writer,
                          SafetensorsWriter::Create(JoinPath(job->directory, file.name()), entries,
                                                    {{"cohort", "shards"}}));
  for (ShardPlan& plan : plans) {
    for (const int slot : TensorsOf(plan)) {
      COHORT_RETURN_IF_ERROR(WriteTensor(job, plan, slot, writer.get()));
    }
    if (plan.increment()) file.set_increment(true);
    // Those that were written by rows have stayed so far.
    job->Release(plan.shard);
    plan = {};
  }
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
