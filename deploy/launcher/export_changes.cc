#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/find_checkpoint.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/shard_names.h"
#include "common/tensor/table_rows.h"
#include "deploy/launcher/export_checkpoint.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// Rows of a variable, one after another.
struct Rows {
  std::vector<int64_t> numbers;
  std::string values;

  size_t row_bytes() const { return values.size() / std::max<size_t>(numbers.size(), 1); }
};

// What has changed in a variable, as changes are added from the older to the newer.
class Changes {
 public:
  // `values`: of these rows, one after another.
  void Put(std::span<const int64_t> rows, std::span<const uint8_t> values) {
    if (rows.empty()) return;
    row_bytes_ = values.size() / rows.size();
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto* const from = reinterpret_cast<const char*>(values.data() + i * row_bytes_);
      const auto [place, is_new] = places_.try_emplace(rows[i], values_.size());
      if (is_new) {
        values_.append(from, row_bytes_);
      } else {
        std::copy_n(from, row_bytes_, values_.data() + place->second);
      }
      removed_.erase(rows[i]);
    }
  }
  void Remove(std::span<const int64_t> rows) {
    for (const int64_t row : rows) {
      places_.erase(row);
      removed_.insert(row);
    }
  }
  bool empty() const { return places_.empty() && removed_.empty(); }

  // Both in ascending order.
  Rows Changed() const {
    Rows rows;
    rows.numbers.reserve(places_.size());
    for (const auto& [row, place] : places_) rows.numbers.push_back(row);
    std::ranges::sort(rows.numbers);
    rows.values.reserve(places_.size() * row_bytes_);
    for (const int64_t row : rows.numbers) {
      rows.values.append(values_, places_.find(row)->second, row_bytes_);
    }
    return rows;
  }
  std::vector<int64_t> Removed() const {
    std::vector<int64_t> rows(removed_.begin(), removed_.end());
    std::ranges::sort(rows);
    return rows;
  }

 private:
  size_t row_bytes_ = 0;
  absl::flat_hash_map<int64_t, size_t> places_;  // in values_, of the rows that have changed
  std::string values_;
  absl::flat_hash_set<int64_t> removed_;
};

// The checkpoints whose difference is written.
struct Checkpoints {
  std::unique_ptr<CheckpointReader> before;
  std::unique_ptr<CheckpointReader> after;
  std::string before_directory;
  bool verified_before = false;
};

// Reads all of `before` if nobody has, because its rows will be compared.
absl::Status VerifyBefore(Checkpoints* checkpoints) {
  if (checkpoints->verified_before) return absl::OkStatus();
  checkpoints->verified_before = true;
  return VerifyFiles(checkpoints->before_directory, checkpoints->before->manifest(),
                     /*checksums=*/true);
}

// The changes of the increments from `before`, exclusive, to `after`. Returns false if one of the
// checkpoints between has all rows of the variable.
absl::StatusOr<bool> FromIncrements(const CheckpointReader& before, const CheckpointReader& after,
                                    const std::string& variable, Changes* changes) {
  if (IdOf(after.manifest()) == IdOf(before.manifest())) return true;
  if (after.base() == nullptr) return false;
  COHORT_ASSIGN_OR_RETURN(const bool older,
                          FromIncrements(before, *after.base(), variable, changes));
  if (!older) return false;
  std::vector<int64_t> removed;
  COHORT_ASSIGN_OR_RETURN(const bool by_rows, after.ReadChanges(
                                                  variable,
                                                  [changes](auto rows, auto tensors) {
                                                    changes->Put(rows, tensors[0]);
                                                    return absl::OkStatus();
                                                  },
                                                  &removed));
  if (by_rows) changes->Remove(removed);
  return by_rows;
}

// Some rows of a variable, ascending; of a table those that exist.
absl::StatusOr<Rows> ReadSome(const CheckpointReader& reader, const LogicalTensor& tensor,
                              uint64_t begin, uint64_t count) {
  Rows rows;
  const auto first = static_cast<int64_t>(begin);
  if (IsTable(tensor.dims)) {
    const std::string slots[] = {""};
    const auto add = [&](std::span<const int64_t> some, auto tensors) {
      for (const int64_t row : some) rows.numbers.push_back(first + row);
      rows.values.append(reinterpret_cast<const char*>(tensors[0].data()), tensors[0].size());
      return absl::OkStatus();
    };
    COHORT_RETURN_IF_ERROR(reader.ReadTable(tensor.variable, kKeysSlot, slots, begin, count, add));
    return rows;
  }
  rows.numbers.resize(count);
  std::iota(rows.numbers.begin(), rows.numbers.end(), first);
  const Dims dims = PieceDims(tensor.dims, count);
  rows.values.resize(static_cast<size_t>(NumElements(dims)) * SizeOf(tensor.dtype));
  COHORT_RETURN_IF_ERROR(
      reader.ReadRows(tensor.variable, "", tensor.dtype, begin, count,
                      {reinterpret_cast<uint8_t*>(rows.values.data()), rows.values.size()}));
  return rows;
}

// Adds what has changed from `old` to `now`, which are the same part of a variable.
void CompareRows(const Rows& old, const Rows& now, Changes* changes) {
  const size_t bytes = now.row_bytes();
  size_t o = 0;
  for (size_t n = 0; n < now.numbers.size(); ++n) {
    for (; o < old.numbers.size() && old.numbers[o] < now.numbers[n]; ++o) {
      changes->Remove({&old.numbers[o], 1});
    }
    const bool was = o < old.numbers.size() && old.numbers[o] == now.numbers[n];
    const std::string_view values = std::string_view(now.values).substr(n * bytes, bytes);
    const bool same = was && std::string_view(old.values).substr(o * bytes, bytes) == values;
    if (was) ++o;
    if (same) continue;
    changes->Put({&now.numbers[n], 1}, {reinterpret_cast<const uint8_t*>(values.data()), bytes});
  }
  changes->Remove(std::span(old.numbers).subspan(o));
}

absl::Status Compare(const CheckpointReader& before, const CheckpointReader& after,
                     const LogicalTensor& tensor, Changes* changes) {
  constexpr uint64_t kRowsAtOnce = 1 << 16;
  const uint64_t all = RowsOf(tensor.dims);
  uint64_t some = kRowsAtOnce;
  if (IsTable(tensor.dims)) {
    COHORT_ASSIGN_OR_RETURN(const uint64_t exist, after.TableSize(tensor.variable));
    some = all / (1 + exist / kRowsAtOnce);
  }
  for (uint64_t begin = 0; begin < all; begin += some) {
    const uint64_t count = std::min(some, all - begin);
    COHORT_ASSIGN_OR_RETURN(const Rows old, ReadSome(before, tensor, begin, count));
    COHORT_ASSIGN_OR_RETURN(const Rows now, ReadSome(after, tensor, begin, count));
    CompareRows(old, now, changes);
  }
  return absl::OkStatus();
}

// The file: its tensors and their bytes.
struct Delta {
  std::vector<SafetensorsWriter::Entry> entries;
  std::vector<std::string> bytes;

  void Add(const std::string& name, DType dtype, const Dims& dims, std::string data) {
    entries.push_back({name, dtype, dims});
    bytes.push_back(std::move(data));
  }
};

std::string BytesOf(const std::vector<int64_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t)};
}

void AddRows(const LogicalTensor& tensor, const Changes& changes, Delta* delta) {
  if (changes.empty()) return;
  const bool table = IsTable(tensor.dims);
  Rows changed = changes.Changed();
  std::vector<int64_t> removed = changes.Removed();
  if (table) {
    for (int64_t& row : changed.numbers) row = KeyOfRow(row);
    for (int64_t& row : removed) row = KeyOfRow(row);
  }
  const size_t count = changed.numbers.size();
  delta->Add(tensor.variable + (table ? "@keys" : "@rows"), DType::kInt64,
             {static_cast<int64_t>(count)}, BytesOf(changed.numbers));
  delta->Add(tensor.variable + "@values", tensor.dtype, PieceDims(tensor.dims, count),
             std::move(changed.values));
  if (!table) return;
  delta->Add(tensor.variable + "@removed", DType::kInt64, {static_cast<int64_t>(removed.size())},
             BytesOf(removed));
}

absl::Status AddVariable(const v1::VariableSpec& variable, Checkpoints* checkpoints, Delta* delta) {
  const CheckpointReader& before = *checkpoints->before;
  const CheckpointReader& after = *checkpoints->after;
  const LogicalTensor& tensor = *after.Find(variable.name(), "");
  const LogicalTensor* const old = before.Find(variable.name(), "");
  if (old == nullptr || old->dims != tensor.dims || old->dtype != tensor.dtype) {
    return FailedPrecondition(
        "the variable \"{}\" differs in {}: export the whole model once, without --changed_since",
        variable.name(), IdOf(before.manifest()).ToString());
  }
  if (variable.row_reads() || IsTable(tensor.dims)) {
    Changes changes;
    COHORT_ASSIGN_OR_RETURN(const bool known,
                            FromIncrements(before, after, variable.name(), &changes));
    if (!known) {
      changes = {};
      COHORT_RETURN_IF_ERROR(VerifyBefore(checkpoints));
      COHORT_RETURN_IF_ERROR(Compare(before, after, tensor, &changes));
    }
    AddRows(tensor, changes, delta);
    return absl::OkStatus();
  }
  COHORT_ASSIGN_OR_RETURN(const Tensor was, before.Read(variable.name(), ""));
  COHORT_ASSIGN_OR_RETURN(const Tensor is, after.Read(variable.name(), ""));
  if (std::memcmp(was.raw(), is.raw(), is.num_bytes()) == 0) return absl::OkStatus();
  delta->Add(variable.name(), tensor.dtype, tensor.dims,
             std::string(static_cast<const char*>(is.raw()), is.num_bytes()));
  return absl::OkStatus();
}

// The newest checkpoint of that step before `after`, which lies beside it.
absl::StatusOr<std::string> CheckpointOfStep(const std::string& after, const CheckpointId& id,
                                             int64_t step) {
  const std::string directory =
      std::filesystem::absolute(after).lexically_normal().parent_path().string();
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(directory));
  std::string steps;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->id > id) continue;
    const auto manifest = ReadManifest(entry->manifest);
    if (!manifest.ok()) continue;
    if (manifest->step() == static_cast<uint64_t>(step)) return entry->directory;
    steps += fmt::format("{}{}", steps.empty() ? "" : ", ", manifest->step());
  }
  return NotFound("--changed_since {}: {} has no checkpoint of this step; those up to {} are of {}",
                  step, directory, id.ToString(), steps);
}

absl::Status WriteDelta(const Delta& delta, const SafetensorsWriter::Metadata& metadata,
                        const std::string& path) {
  COHORT_ASSIGN_OR_RETURN(const auto writer,
                          SafetensorsWriter::Create(path, delta.entries, metadata));
  for (const std::string& bytes : delta.bytes) {
    COHORT_RETURN_IF_ERROR(writer->Append(bytes.data(), bytes.size()));
  }
  return writer->Finish().status();
}

}  // namespace

absl::StatusOr<std::string> ExportChanges(const ExportOptions& options) {
  if (options.format != "safetensors") {
    return UsageError("--changed_since writes safetensors, not --format {}", options.format);
  }
  // What the older checkpoint needs is read only if rows are compared with it.
  const auto step = static_cast<uint64_t>(options.changed_since);
  std::string refused;
  COHORT_ASSIGN_OR_RETURN(const std::string path,
                          FindCheckpoint(options.checkpoint, &refused, step));
  Checkpoints checkpoints;
  COHORT_ASSIGN_OR_RETURN(checkpoints.after, CheckpointReader::Open(path, {.after_step = step}));
  const v1::Manifest& after = checkpoints.after->manifest();
  COHORT_ASSIGN_OR_RETURN(checkpoints.before_directory,
                          CheckpointOfStep(path, IdOf(after), options.changed_since));
  COHORT_ASSIGN_OR_RETURN(checkpoints.before, CheckpointReader::Open(checkpoints.before_directory,
                                                                     {.verify_checksums = false}));
  const v1::Manifest& before = checkpoints.before->manifest();
  Delta delta;
  for (const v1::VariableSpec& variable : after.layout().variables()) {
    COHORT_RETURN_IF_ERROR(AddVariable(variable, &checkpoints, &delta));
  }
  const std::string temporary = options.out + ".new";
  absl::Status written = WriteDelta(delta,
                                    {{"format", "np"},
                                     {"base_step", fmt::format("{}", before.step())},
                                     {"base_id", IdOf(before).ToString()},
                                     {"id", IdOf(after).ToString()},
                                     {"step", fmt::format("{}", after.step())},
                                     {"checkpoint", path}},
                                    temporary);
  if (written.ok() && std::rename(temporary.c_str(), options.out.c_str()) != 0) {
    written = ErrnoStatus("cannot rename the new", options.out, errno);
  }
  if (!written.ok()) {
    unlink(temporary.c_str());
    return written;
  }
  return fmt::format("{}{}: what {} has changed since {}\n", refused, options.out, path,
                     checkpoints.before_directory);
}

}  // namespace cohort
