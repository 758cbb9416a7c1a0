#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
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

using Row = std::string;  // its bytes
using Rows = std::map<int64_t, Row>;

// What has changed in a variable.
struct Changes {
  Rows changed;
  std::set<int64_t> removed;
};

// Puts rows that come in pieces into `rows`.
auto Into(Rows* rows, int64_t first = 0) {
  return [rows, first](std::span<const int64_t> some,
                       std::span<const std::span<const uint8_t>> tensors) {
    const size_t bytes = tensors[0].size() / std::max<size_t>(some.size(), 1);
    for (size_t i = 0; i < some.size(); ++i) {
      const auto* const from = reinterpret_cast<const char*>(tensors[0].data() + i * bytes);
      (*rows)[first + some[i]] = Row(from, bytes);
    }
    return absl::OkStatus();
  };
}

// From the older to the newer.
void AddChanges(const Rows& changed, const std::vector<int64_t>& removed, Changes* all) {
  for (const int64_t row : removed) {
    all->changed.erase(row);
    all->removed.insert(row);
  }
  for (const auto& [row, values] : changed) {
    all->changed[row] = values;
    all->removed.erase(row);
  }
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
  Rows changed;
  std::vector<int64_t> removed;
  COHORT_ASSIGN_OR_RETURN(const bool by_rows,
                          after.ReadChanges(variable, Into(&changed), &removed));
  if (by_rows) AddChanges(changed, removed, changes);
  return by_rows;
}

// Some rows of a variable, of a table those that exist.
absl::StatusOr<Rows> ReadSome(const CheckpointReader& reader, const LogicalTensor& tensor,
                              uint64_t begin, uint64_t count) {
  Rows rows;
  const auto first = static_cast<int64_t>(begin);
  if (IsTable(tensor.dims)) {
    const std::string values[] = {""};
    COHORT_RETURN_IF_ERROR(
        reader.ReadTable(tensor.variable, kKeysSlot, values, begin, count, Into(&rows, first)));
    return rows;
  }
  const Dims dims = PieceDims(tensor.dims, count);
  std::vector<uint8_t> bytes(static_cast<size_t>(NumElements(dims)) * SizeOf(tensor.dtype));
  COHORT_RETURN_IF_ERROR(reader.ReadRows(tensor.variable, "", tensor.dtype, begin, count, bytes));
  const size_t row_bytes = bytes.size() / std::max<uint64_t>(count, 1);
  for (uint64_t i = 0; i < count; ++i) {
    const auto* const from = reinterpret_cast<const char*>(bytes.data() + i * row_bytes);
    rows[first + static_cast<int64_t>(i)] = Row(from, row_bytes);
  }
  return rows;
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
    COHORT_ASSIGN_OR_RETURN(Rows now, ReadSome(after, tensor, begin, count));
    for (const auto& [row, values] : old) {
      const auto found = now.find(row);
      if (found == now.end()) {
        changes->removed.insert(row);
      } else if (found->second == values) {
        now.erase(found);
      }
    }
    changes->changed.merge(now);
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

template <typename Numbers>
std::string BytesOf(const Numbers& numbers) {
  std::string bytes;
  for (const int64_t number : numbers) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return bytes;
}

void AddRows(const LogicalTensor& tensor, const Changes& changes, Delta* delta) {
  if (changes.changed.empty() && changes.removed.empty()) return;
  const bool table = IsTable(tensor.dims);
  std::vector<int64_t> names;
  std::vector<int64_t> removed;
  std::string values;
  for (const auto& [row, bytes] : changes.changed) {
    names.push_back(table ? KeyOfRow(row) : row);
    values += bytes;
  }
  for (const int64_t row : changes.removed) removed.push_back(KeyOfRow(row));
  const auto count = static_cast<int64_t>(names.size());
  delta->Add(tensor.variable + (table ? "@keys" : "@rows"), DType::kInt64, {count}, BytesOf(names));
  delta->Add(tensor.variable + "@values", tensor.dtype,
             PieceDims(tensor.dims, static_cast<uint64_t>(count)), std::move(values));
  if (!table) return;
  delta->Add(tensor.variable + "@removed", DType::kInt64, {static_cast<int64_t>(removed.size())},
             BytesOf(removed));
}

absl::Status AddVariable(const CheckpointReader& before, const CheckpointReader& after,
                         const v1::VariableSpec& variable, Delta* delta) {
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
  std::string refused;
  COHORT_ASSIGN_OR_RETURN(const std::string path, FindCheckpoint(options.checkpoint, &refused));
  COHORT_ASSIGN_OR_RETURN(const auto after, CheckpointReader::Open(path, {}));
  COHORT_ASSIGN_OR_RETURN(const std::string old,
                          CheckpointOfStep(path, IdOf(after->manifest()), options.changed_since));
  COHORT_ASSIGN_OR_RETURN(const auto before, CheckpointReader::Open(old, {}));
  Delta delta;
  for (const v1::VariableSpec& variable : after->manifest().layout().variables()) {
    COHORT_RETURN_IF_ERROR(AddVariable(*before, *after, variable, &delta));
  }
  const std::string temporary = options.out + ".new";
  absl::Status written = WriteDelta(delta,
                                    {{"format", "np"},
                                     {"base_step", fmt::format("{}", before->manifest().step())},
                                     {"step", fmt::format("{}", after->manifest().step())},
                                     {"checkpoint", path}},
                                    temporary);
  if (written.ok() && std::rename(temporary.c_str(), options.out.c_str()) != 0) {
    written = ErrnoStatus("cannot rename the new", options.out, errno);
  }
  if (!written.ok()) {
    unlink(temporary.c_str());
    return written;
  }
  return fmt::format("{}{}: what {} has changed since {}\n", refused, options.out, path, old);
}

}  // namespace cohort
