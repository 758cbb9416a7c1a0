#include "common/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "common/base/status.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors_format.h"
#include "common/checkpoint/shard_names.h"
#include "common/tensor/table_rows.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

std::string NameOf(const LogicalTensor& tensor) {
  return tensor.slot.empty() ? tensor.variable : tensor.variable + "@" + tensor.slot;
}

uint64_t RowBytes(const LogicalTensor& tensor) {
  uint64_t bytes = SizeOf(tensor.dtype);
  for (size_t axis = 1; axis < tensor.dims.size(); ++axis) {
    bytes *= static_cast<uint64_t>(tensor.dims[axis]);
  }
  return bytes;
}

std::string DirectoryOf(const std::string& path) {
  const std::string_view name = kManifestName;
  if (path.size() < name.size() ||
      path.compare(path.size() - name.size(), name.size(), name) != 0) {
    return path;
  }
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// True if the slot has one number for each row of its variable.
bool IsByRow(const LogicalTensor& variable, const ShardTensorName& name, const TensorInfo& info) {
  return !name.slot.empty() && variable.dims.size() > 1 && info.dims.size() == 1;
}

// Other tensors with names of rows have keys.
constexpr std::string_view kChangedRowsMark = "@changed_rows/";

bool NamesChanges(const std::string& slot) {
  return slot == kChangedRowsSlot || slot == kRemovedKeysSlot;
}

// What is known of rows that are not admitted is in each checkpoint.
bool IsAlwaysWhole(const std::string& slot) {
  return slot == kCountedKeysSlot || slot == kCountsSlot || slot == kCountedSlot;
}

// The memory for `rows` rows must have their size.
absl::Status CheckSize(const LogicalTensor& tensor, DType dtype, uint64_t rows, size_t bytes) {
  const uint64_t row_bytes = RowBytes(tensor);
  if (tensor.dtype == dtype && bytes == rows * row_bytes) return absl::OkStatus();
  return InvalidArgument("{} rows of {} are {} bytes of {}, not {} of {}", rows, NameOf(tensor),
                         rows * row_bytes, DTypeName(tensor.dtype), bytes, DTypeName(dtype));
}

std::optional<HashedRows> HashedOf(const v1::Layout& layout, const v1::VariableSpec& variable) {
  if (!variable.hashed_rows() || variable.dims().empty()) return std::nullopt;
  const int64_t shards = std::ranges::count_if(layout.shards(), [&](const v1::ShardSpec& shard) {
    return shard.variable() < static_cast<uint32_t>(layout.variables_size()) &&
           &layout.variables(static_cast<int>(shard.variable())) == &variable;
  });
  return HashedRows(variable.dims(0), std::max<int64_t>(shards, 1));
}

// The row of the variable that is at a place of its shards, one after the other.
int64_t OwnRow(const HashedRows& hashed, int64_t stored) {
  int64_t low = 0;
  int64_t high = hashed.shards() - 1;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (hashed.BeginOf(middle) <= stored) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return hashed.RowAt({low, stored - hashed.BeginOf(low)});
}

// A piece must have the dtype and the dims that the variable's rows have. `changes`: null, or what
// names the rows of the piece.
absl::Status CheckPiece(const LogicalTensor& tensor, const ShardTensorName& name,
                        const TensorInfo& info, const TensorInfo* changes) {
  const DType dtype =
      IsTable(tensor.dims) && IsSlotOfTable(name.slot) ? DType::kInt64 : tensor.dtype;
  if (info.dtype != dtype) {
    return DataLoss("tensor \"{}\" has dtype {}, its variable {}", info.name, DTypeName(info.dtype),
                    DTypeName(dtype));
  }
  const bool keys = IsTable(tensor.dims) && IsSlotOfTable(name.slot);
  Dims expected = PieceDims(tensor.dims, name.row_end - name.row_begin);
  if (IsTable(tensor.dims) && !info.dims.empty()) expected[0] = info.dims[0];
  if (keys || IsByRow(tensor, name, info)) expected.resize(1);
  if (changes != nullptr && !IsTable(tensor.dims) && !expected.empty()) {
    expected[0] = changes->dims[0];
  }
  if (info.dims != expected || name.row_end > RowsOf(tensor.dims)) {
    return DataLoss("tensor \"{}\" has shape {}; its variable has {}", info.name,
                    DimsToString(info.dims), DimsToString(tensor.dims));
  }
  return absl::OkStatus();
}

// Merges the rows of a base with those that an increment changes and removes.
class RowMerge {
 public:
  using Rows = std::span<const int64_t>;
  using Tensors = std::span<const std::span<const uint8_t>>;

  explicit RowMerge(const std::vector<uint64_t>& item_bytes)
      : item_bytes_(item_bytes), changed_(item_bytes.size()), merged_(item_bytes.size()) {}

  absl::Status AddChanged(Rows rows, Tensors tensors) {
    COHORT_RETURN_IF_ERROR(CheckSizes(rows, tensors));
    changed_rows_.insert(changed_rows_.end(), rows.begin(), rows.end());
    for (size_t t = 0; t < tensors.size(); ++t) {
      changed_[t].insert(changed_[t].end(), tensors[t].begin(), tensors[t].end());
    }
    return absl::OkStatus();
  }
  std::vector<int64_t>* removed() { return &removed_; }

  // Gives the next rows of the base, and those that change before them, to `add`.
  absl::Status AddBase(Rows rows, Tensors tensors, CheckpointReader::RowAdder add) {
    COHORT_RETURN_IF_ERROR(CheckSizes(rows, tensors));
    for (size_t i = 0; i < rows.size(); ++i) {
      while (next_ < changed_rows_.size() && changed_rows_[next_] < rows[i]) TakeChanged();
      if (next_ < changed_rows_.size() && changed_rows_[next_] == rows[i]) {
        TakeChanged();
        continue;
      }
      while (gone_ < removed_.size() && removed_[gone_] < rows[i]) ++gone_;
      if (gone_ < removed_.size() && removed_[gone_] == rows[i]) continue;
      rows_.push_back(rows[i]);
      for (size_t t = 0; t < tensors.size(); ++t) {
        Append(tensors[t].data() + i * item_bytes_[t], t);
      }
    }
    return Give(add);
  }
  absl::Status Finish(CheckpointReader::RowAdder add) {
    while (next_ < changed_rows_.size()) TakeChanged();
    return Give(add);
  }

 private:
  absl::Status CheckSizes(Rows rows, Tensors tensors) const {
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (tensors[t].size() == rows.size() * item_bytes_[t]) continue;
      return DataLoss("{} rows of {} bytes cannot be merged with rows of {} bytes in all",
                      rows.size(), item_bytes_[t], tensors[t].size());
    }
    return absl::OkStatus();
  }
  void Append(const uint8_t* item, size_t t) {
    merged_[t].insert(merged_[t].end(), item, item + item_bytes_[t]);
  }
  void TakeChanged() {
    rows_.push_back(changed_rows_[next_]);
    for (size_t t = 0; t < changed_.size(); ++t) {
      Append(changed_[t].data() + next_ * item_bytes_[t], t);
    }
    ++next_;
  }
  absl::Status Give(CheckpointReader::RowAdder add) {
    if (rows_.empty()) return absl::OkStatus();
    const std::vector<std::span<const uint8_t>> tensors(merged_.begin(), merged_.end());
    COHORT_RETURN_IF_ERROR(add(rows_, tensors));
    rows_.clear();
    for (std::vector<uint8_t>& items : merged_) items.clear();
    return absl::OkStatus();
  }

  const std::vector<uint64_t>& item_bytes_;
  std::vector<int64_t> changed_rows_;
  std::vector<std::vector<uint8_t>> changed_;
  size_t next_ = 0;  // in changed_rows_
  std::vector<int64_t> removed_;
  size_t gone_ = 0;  // in removed_
  std::vector<int64_t> rows_;
  std::vector<std::vector<uint8_t>> merged_;
};

}  // namespace

absl::StatusOr<std::vector<PlannedRead>> PlanRows(const LogicalTensor& tensor, uint64_t row_begin,
                                                  uint64_t rows) {
  const uint64_t total = RowsOf(tensor.dims);
  if (row_begin > total || rows > total - row_begin) {
    return OutOfRange("rows [{}, +{}) of {}, which has {}", row_begin, rows, NameOf(tensor), total);
  }
  const uint64_t row_end = row_begin + rows;
  std::vector<PlannedRead> reads;
  auto piece = std::upper_bound(
      tensor.pieces.begin(), tensor.pieces.end(), row_begin,
      [](uint64_t row, const StoredPiece& candidate) { return row < candidate.row_end; });
  for (uint64_t at = row_begin; at < row_end; ++piece) {
    if (piece == tensor.pieces.end() || piece->row_begin > at) {
      return DataLoss("row {} of {} is not stored", at, NameOf(tensor));
    }
    const uint64_t end = std::min(row_end, piece->row_end);
    reads.push_back({&*piece, at, end});
    at = end;
  }
  return reads;
}

CheckpointReader::CheckpointReader() = default;
CheckpointReader::~CheckpointReader() = default;

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(const std::string& path,
                                                                         const Options& options) {
  COHORT_ASSIGN_OR_RETURN(v1::Manifest manifest, ReadManifest(path));
  const std::string directory = DirectoryOf(path);
  COHORT_RETURN_IF_ERROR(
      VerifyFiles(directory, manifest, options.verify_checksums, options.after_step));
  std::unique_ptr<CheckpointReader> reader(new CheckpointReader());
  if (!manifest.base().empty()) {
    COHORT_ASSIGN_OR_RETURN(reader->base_,
                            Open(BaseDirectory(directory, manifest), {.verify_checksums = false}));
  }
  reader->manifest_ = std::make_unique<v1::Manifest>(std::move(manifest));
  for (const v1::VariableSpec& variable : reader->manifest_->layout().variables()) {
    LogicalTensor tensor;
    tensor.variable = variable.name();
    tensor.dtype = static_cast<DType>(variable.dtype());
    tensor.dims.assign(variable.dims().begin(), variable.dims().end());
    tensor.hashed = HashedOf(reader->manifest_->layout(), variable);
    if (SizeOf(tensor.dtype) == 0 ||
        !safetensors::BytesOf(tensor.dtype, PieceDims(tensor.dims, 1)).has_value() ||
        (!IsTable(tensor.dims) && !safetensors::BytesOf(tensor.dtype, tensor.dims).has_value())) {
      return DataLoss("{}: variable \"{}\" has no dtype or no possible shape", path,
                      tensor.variable);
    }
    reader->tensors_.emplace(std::make_pair(tensor.variable, std::string()), std::move(tensor));
  }
  for (const v1::SnapshotFile& file : reader->manifest_->files()) {
    COHORT_RETURN_IF_ERROR(reader->AddFile(JoinPath(directory, file.name())));
  }
  absl::Status complete = reader->Complete();
  if (complete.ok() && reader->base_ != nullptr) complete = reader->CompareWithBase();
  if (!complete.ok()) return Annotate(complete, path);
  return reader;
}

absl::Status CheckpointReader::AddFile(const std::string& path) {
  COHORT_ASSIGN_OR_RETURN(auto file, SafetensorsReader::Open(path));
  // By variable and first row.
  std::map<std::pair<std::string, uint64_t>, const TensorInfo*> changes;
  for (const TensorInfo& info : file->tensors()) {
    const auto name = ShardTensorName::Parse(info.name);
    if (!name.has_value() || !NamesChanges(name->slot)) continue;
    const LogicalTensor* const variable = Find(name->variable, "");
    const bool fits = base_ != nullptr && variable != nullptr && !variable->dims.empty() &&
                      IsTable(variable->dims) == (name->slot == kRemovedKeysSlot) &&
                      info.dtype == DType::kInt64 && info.dims.size() == 1;
    if (!fits) {
      return DataLoss("{}: tensor \"{}\" cannot name rows of an increment", path, info.name);
    }
    changes[{name->variable, name->row_begin}] = &info;
  }
  for (const TensorInfo& info : file->tensors()) {
    const auto name = ShardTensorName::Parse(info.name);
    if (!name.has_value()) {
      return DataLoss("{}: \"{}\" is not the name of a shard", path, info.name);
    }
    const auto variable = tensors_.find({name->variable, ""});
    if (variable == tensors_.end()) {
      return DataLoss("{}: tensor \"{}\" belongs to no variable of the manifest", path, info.name);
    }
    if (NamesChanges(name->slot)) continue;
    const auto named = changes.find({name->variable, name->row_begin});
    const TensorInfo* const changed =
        named == changes.end() || IsAlwaysWhole(name->slot) ? nullptr : named->second;
    const auto checked = CheckPiece(variable->second, *name, info, changed);
    if (!checked.ok()) return Annotate(checked, path);
    auto& tensor = tensors_[{name->variable, name->slot}];
    if (tensor.variable.empty()) {
      tensor.variable = name->variable;
      tensor.slot = name->slot;
      tensor.dtype = variable->second.dtype;
      tensor.dims = variable->second.dims;
      tensor.hashed = variable->second.hashed;
      if (IsTable(tensor.dims) && IsSlotOfTable(tensor.slot)) {
        tensor.dtype = DType::kInt64;
      }
      if (IsByRow(tensor, *name, info)) tensor.dims.resize(1);
    }
    if (tensor.dims.size() != info.dims.size()) {
      return DataLoss("{}: tensor \"{}\" has shape {}; other rows of it have {} axes", path,
                      info.name, DimsToString(info.dims), tensor.dims.size());
    }
    StoredPiece& piece = tensor.pieces.emplace_back(
        StoredPiece{name->row_begin, name->row_end, files_.size(), info, std::nullopt});
    if (changed != nullptr) piece.changes = *changed;
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

// Sorts the pieces of every tensor and checks that they contain each of its rows exactly once.
absl::Status CheckpointReader::Complete() {
  for (auto& [key, tensor] : tensors_) {
    std::erase_if(tensor.pieces,
                  [](const StoredPiece& piece) { return piece.row_begin == piece.row_end; });
    std::sort(tensor.pieces.begin(), tensor.pieces.end(),
              [](const StoredPiece& a, const StoredPiece& b) { return a.row_begin < b.row_begin; });
    uint64_t at = 0;
    for (const StoredPiece& piece : tensor.pieces) {
      if (piece.row_begin < at) {
        return DataLoss("row {} of {} is stored twice", piece.row_begin, NameOf(tensor));
      }
      if (piece.row_begin > at) {
        return DataLoss("rows [{}, {}) of {} are in no file", at, piece.row_begin, NameOf(tensor));
      }
      at = piece.row_end;
    }
    if (at != RowsOf(tensor.dims)) {
      return DataLoss("rows [{}, {}) of {} are in no file", at, RowsOf(tensor.dims),
                      NameOf(tensor));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::CompareWithBase() const {
  // Rows of all tensors of a variable are merged with the base's if one of them has changes.
  std::set<std::string> changed;
  for (const auto& [key, tensor] : tensors_) {
    const bool changes = std::ranges::any_of(
        tensor.pieces, [](const StoredPiece& piece) { return piece.changes.has_value(); });
    if (changes) changed.insert(tensor.variable);
  }
  for (const auto& [key, tensor] : tensors_) {
    if (!changed.contains(tensor.variable) || IsAlwaysWhole(tensor.slot)) continue;
    const LogicalTensor* const before = base_->Find(tensor.variable, tensor.slot);
    if (before != nullptr && before->dtype == tensor.dtype && before->dims == tensor.dims &&
        before->hashed == tensor.hashed) {
      continue;
    }
    return DataLoss("the base {} has no rows of {} that could change", manifest_->base(),
                    NameOf(tensor));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CheckpointReader::TableSize(const std::string& variable) const {
  const LogicalTensor* const keys = Find(variable, kKeysSlot);
  uint64_t rows = 0;
  if (keys == nullptr) return rows;
  if (base_ == nullptr) {
    for (const StoredPiece& piece : keys->pieces) rows += static_cast<uint64_t>(piece.info.dims[0]);
    return rows;
  }
  COHORT_RETURN_IF_ERROR(ReadTable(variable, kKeysSlot, {}, 0, uint64_t{kTableRows},
                                   [&](std::span<const int64_t> some, auto) {
                                     rows += some.size();
                                     return absl::OkStatus();
                                   }));
  return rows;
}

absl::StatusOr<int64_t> CheckpointReader::RowIn(const StoredPiece& piece, const TensorInfo& names,
                                                uint64_t index) const {
  std::vector<int64_t> row;
  COHORT_RETURN_IF_ERROR(ReadNames(piece, names, index, 1, &row));
  return row[0];
}

absl::StatusOr<uint64_t> CheckpointReader::IndexOf(const StoredPiece& piece,
                                                   const TensorInfo& names, uint64_t row) const {
  if (row <= piece.row_begin) return 0;
  uint64_t low = 0;
  auto high = static_cast<uint64_t>(names.dims[0]);
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    COHORT_ASSIGN_OR_RETURN(const int64_t found, RowIn(piece, names, middle));
    if (static_cast<uint64_t>(found) < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

absl::Status CheckpointReader::ReadNames(const StoredPiece& piece, const TensorInfo& names,
                                         uint64_t first, uint64_t count,
                                         std::vector<int64_t>* rows) const {
  rows->resize(count);
  COHORT_RETURN_IF_ERROR(files_[piece.file]->ReadBytes(names, first * sizeof(int64_t),
                                                       count * sizeof(int64_t),
                                                       reinterpret_cast<uint8_t*>(rows->data())));
  const bool keys = names.name.find(kChangedRowsMark) == std::string::npos;
  uint64_t next = piece.row_begin;  // the smallest row that may come
  for (int64_t& name : *rows) {
    const auto row = static_cast<uint64_t>(keys ? RowOfKey(name) : name);
    if (row < next || row >= piece.row_end) {
      return DataLoss("\"{}\": the {} {} is out of order", names.name, keys ? "key" : "row", name);
    }
    next = row + 1;
    name = static_cast<int64_t>(row);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CheckpointReader::ReadChanges(const std::string& variable, RowAdder changed,
                                                   std::vector<int64_t>* removed) const {
  const LogicalTensor* const values = Find(variable, "");
  const LogicalTensor* const keys = Find(variable, kKeysSlot);
  const bool by_rows =
      values != nullptr && std::ranges::all_of(values->pieces, [](const StoredPiece& piece) {
        return piece.changes.has_value();
      });
  if (!by_rows || (keys != nullptr && keys->pieces.size() != values->pieces.size())) return false;
  std::vector<int64_t> rows;
  std::vector<int64_t> own;
  const auto add = [&](std::span<const int64_t> stored, auto tensors) {
    if (!values->hashed.has_value()) return changed(stored, tensors);
    own.clear();
    for (const int64_t row : stored) own.push_back(OwnRow(*values->hashed, row));
    return changed(own, tensors);
  };
  for (size_t p = 0; p < values->pieces.size(); ++p) {
    const StoredPiece& piece = values->pieces[p];
    // What names the rows of the piece.
    StoredPiece named = keys != nullptr ? keys->pieces[p] : piece;
    if (keys == nullptr) named.info = *piece.changes;
    if (named.info.dims[0] != piece.info.dims[0]) {
      return DataLoss("\"{}\" has {} rows, and there are {} names of rows", piece.info.name,
                      piece.info.dims[0], named.info.dims[0]);
    }
    COHORT_RETURN_IF_ERROR(ReadTablePiece(named, {&piece, 1}, piece.row_begin, piece.row_end, add));
    if (keys == nullptr) continue;
    const auto count = static_cast<uint64_t>(piece.changes->dims[0]);
    COHORT_RETURN_IF_ERROR(ReadNames(piece, *piece.changes, 0, count, &rows));
    removed->insert(removed->end(), rows.begin(), rows.end());
  }
  return true;
}

absl::Status CheckpointReader::ReadTable(const std::string& variable, const std::string& keys_slot,
                                         std::span<const std::string> slots, uint64_t row_begin,
                                         uint64_t rows, RowAdder add) const {
  std::vector<int64_t> numbers;
  return ReadTableRows(variable, keys_slot, slots, row_begin, row_begin + rows,
                       [&](std::span<const int64_t> some, auto tensors) {
                         numbers.assign(some.begin(), some.end());
                         for (int64_t& row : numbers) row -= static_cast<int64_t>(row_begin);
                         return add(numbers, tensors);
                       });
}

absl::Status CheckpointReader::ReadTableRows(const std::string& variable,
                                             const std::string& keys_slot,
                                             std::span<const std::string> slots, uint64_t row_begin,
                                             uint64_t row_end, RowAdder add) const {
  const LogicalTensor* const keys = Find(variable, keys_slot);
  if (keys == nullptr && keys_slot == kCountedKeysSlot) return absl::OkStatus();
  if (keys == nullptr) {
    return DataLoss("{} has no keys of the table \"{}\"", IdOf(*manifest_).ToString(), variable);
  }
  std::vector<const LogicalTensor*> tensors;
  for (const std::string& slot : slots) {
    tensors.push_back(Find(variable, slot));
    if (tensors.back() != nullptr && IsTable(tensors.back()->dims) &&
        tensors.back()->pieces.size() == keys->pieces.size()) {
      continue;
    }
    return NotFound("{} has no slot \"{}\" of the table \"{}\"", IdOf(*manifest_).ToString(), slot,
                    variable);
  }
  for (size_t p = 0; p < keys->pieces.size(); ++p) {
    const StoredPiece& piece = keys->pieces[p];
    const uint64_t begin = std::max(row_begin, piece.row_begin);
    const uint64_t end = std::min(row_end, piece.row_end);
    if (begin >= end) continue;
    std::vector<StoredPiece> parts;
    for (const LogicalTensor* tensor : tensors) {
      parts.push_back(tensor->pieces[p]);
      const TensorInfo& info = parts.back().info;
      if (info.dims[0] == piece.info.dims[0]) continue;
      return DataLoss("\"{}\" has {} rows, and there are {} keys", info.name, info.dims[0],
                      piece.info.dims[0]);
    }
    COHORT_RETURN_IF_ERROR(piece.changes.has_value()
                               ? MergeTablePiece(variable, slots, piece, parts, begin, end, add)
                               : ReadTablePiece(piece, parts, begin, end, add));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::ReadTablePiece(const StoredPiece& keys,
                                              std::span<const StoredPiece> parts,
                                              uint64_t row_begin, uint64_t row_end,
                                              RowAdder add) const {
  constexpr uint64_t kAtOnce = 8192;
  const auto total = static_cast<uint64_t>(keys.info.dims[0]);
  std::vector<int64_t> numbers;
  std::vector<std::vector<uint8_t>> memory(parts.size());
  COHORT_ASSIGN_OR_RETURN(uint64_t begin, IndexOf(keys, keys.info, row_begin));
  for (; begin < total; begin += kAtOnce) {
    COHORT_RETURN_IF_ERROR(
        ReadNames(keys, keys.info, begin, std::min(kAtOnce, total - begin), &numbers));
    // Those that are wanted come first.
    const auto count = static_cast<uint64_t>(
        std::ranges::lower_bound(numbers, static_cast<int64_t>(row_end)) - numbers.begin());
    if (count == 0) break;
    std::vector<std::span<const uint8_t>> tensors;
    for (size_t t = 0; t < parts.size(); ++t) {
      const TensorInfo& info = parts[t].info;
      const auto row_bytes =
          static_cast<uint64_t>(NumElements(info.dims) / info.dims[0]) * SizeOf(info.dtype);
      memory[t].resize(count * row_bytes);
      COHORT_RETURN_IF_ERROR(files_[parts[t].file]->ReadBytes(info, begin * row_bytes,
                                                              memory[t].size(), memory[t].data()));
      tensors.push_back(memory[t]);
    }
    COHORT_RETURN_IF_ERROR(add({numbers.data(), count}, tensors));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::MergeTablePiece(
    const std::string& variable, std::span<const std::string> slots, const StoredPiece& keys,
    std::span<const StoredPiece> parts, uint64_t row_begin, uint64_t row_end, RowAdder add) const {
  constexpr uint64_t kAtOnce = 1 << 16;  // changed rows in memory
  std::vector<uint64_t> item_bytes;
  for (const std::string& slot : slots) item_bytes.push_back(RowBytes(*Find(variable, slot)));
  COHORT_ASSIGN_OR_RETURN(const uint64_t last, IndexOf(keys, keys.info, row_end));
  COHORT_ASSIGN_OR_RETURN(uint64_t first, IndexOf(keys, keys.info, row_begin));
  for (uint64_t begin = row_begin; begin < row_end; first += kAtOnce) {
    uint64_t end = row_end;
    if (first + kAtOnce < last) {
      COHORT_ASSIGN_OR_RETURN(const int64_t next, RowIn(keys, keys.info, first + kAtOnce));
      end = static_cast<uint64_t>(next);
    }
    RowMerge merge(item_bytes);
    COHORT_RETURN_IF_ERROR(ReadTablePiece(keys, parts, begin, end, [&](auto rows, auto tensors) {
      return merge.AddChanged(rows, tensors);
    }));
    COHORT_ASSIGN_OR_RETURN(const uint64_t gone_first, IndexOf(keys, *keys.changes, begin));
    COHORT_ASSIGN_OR_RETURN(const uint64_t gone_last, IndexOf(keys, *keys.changes, end));
    COHORT_RETURN_IF_ERROR(
        ReadNames(keys, *keys.changes, gone_first, gone_last - gone_first, merge.removed()));
    COHORT_RETURN_IF_ERROR(base_->ReadTableRows(
        variable, kKeysSlot, slots, begin, end,
        [&](auto rows, auto tensors) { return merge.AddBase(rows, tensors, add); }));
    COHORT_RETURN_IF_ERROR(merge.Finish(add));
    begin = end;
  }
  return absl::OkStatus();
}

const LogicalTensor* CheckpointReader::Find(const std::string& variable,
                                            const std::string& slot) const {
  const auto it = tensors_.find({variable, slot});
  return it == tensors_.end() ? nullptr : &it->second;
}

std::vector<std::string> CheckpointReader::Slots(const std::string& variable) const {
  std::vector<std::string> slots;
  for (auto it = tensors_.lower_bound({variable, ""});
       it != tensors_.end() && it->first.first == variable; ++it) {
    if (!it->first.second.empty()) slots.push_back(it->first.second);
  }
  return slots;
}

absl::StatusOr<const LogicalTensor*> CheckpointReader::FindRows(const std::string& variable,
                                                                const std::string& slot) const {
  const LogicalTensor* tensor = Find(variable, slot);
  if (tensor == nullptr) {
    return NotFound("{} has no tensor \"{}{}{}\"", IdOf(*manifest_).ToString(), variable,
                    slot.empty() ? "" : "@", slot);
  }
  if (IsTable(tensor->dims)) {
    return InvalidArgument("{} is a table without bounds: only its rows that exist can be read",
                           NameOf(*tensor));
  }
  return tensor;
}

absl::Status CheckpointReader::ReadStored(const LogicalTensor& tensor, uint64_t row_begin,
                                          uint64_t rows, std::span<uint8_t> out) const {
  COHORT_ASSIGN_OR_RETURN(const auto reads, PlanRows(tensor, row_begin, rows));
  const uint64_t row_bytes = RowBytes(tensor);
  for (const PlannedRead& read : reads) {
    const StoredPiece& piece = *read.piece;
    if (piece.changes.has_value()) {
      const std::span<uint8_t> part = out.subspan((read.row_begin - row_begin) * row_bytes,
                                                  (read.row_end - read.row_begin) * row_bytes);
      const LogicalTensor* const before = base_->Find(tensor.variable, tensor.slot);
      COHORT_RETURN_IF_ERROR(
          base_->ReadStored(*before, read.row_begin, read.row_end - read.row_begin, part));
      COHORT_RETURN_IF_ERROR(Patch(piece, row_bytes, read.row_begin, read.row_end, part));
      continue;
    }
    COHORT_RETURN_IF_ERROR(
        files_[piece.file]->ReadBytes(piece.info, (read.row_begin - piece.row_begin) * row_bytes,
                                      (read.row_end - read.row_begin) * row_bytes,
                                      out.data() + (read.row_begin - row_begin) * row_bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::Patch(const StoredPiece& piece, uint64_t row_bytes,
                                     uint64_t row_begin, uint64_t row_end,
                                     std::span<uint8_t> out) const {
  constexpr uint64_t kAtOnce = 8192;
  COHORT_ASSIGN_OR_RETURN(uint64_t next, IndexOf(piece, *piece.changes, row_begin));
  COHORT_ASSIGN_OR_RETURN(const uint64_t end, IndexOf(piece, *piece.changes, row_end));
  std::vector<int64_t> rows;
  std::vector<uint8_t> items;
  for (; next < end; next += rows.size()) {
    COHORT_RETURN_IF_ERROR(
        ReadNames(piece, *piece.changes, next, std::min(kAtOnce, end - next), &rows));
    items.resize(rows.size() * row_bytes);
    COHORT_RETURN_IF_ERROR(
        files_[piece.file]->ReadBytes(piece.info, next * row_bytes, items.size(), items.data()));
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<uint64_t>(rows[i]);
      if (row < row_begin || row >= row_end) {
        return DataLoss("\"{}\": the row {} is out of order", piece.changes->name, row);
      }
      std::memcpy(out.data() + (row - row_begin) * row_bytes, items.data() + i * row_bytes,
                  row_bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::ReadRows(const std::string& variable, const std::string& slot,
                                        DType dtype, uint64_t row_begin, uint64_t rows,
                                        std::span<uint8_t> out) const {
  COHORT_ASSIGN_OR_RETURN(const LogicalTensor* const tensor, FindRows(variable, slot));
  COHORT_RETURN_IF_ERROR(PlanRows(*tensor, row_begin, rows).status());  // it has these rows
  COHORT_RETURN_IF_ERROR(CheckSize(*tensor, dtype, rows, out.size()));
  if (!tensor->hashed.has_value()) return ReadStored(*tensor, row_begin, rows, out);
  return ReadFromHashedShards(*tensor->hashed, static_cast<int64_t>(row_begin), RowBytes(*tensor),
                              out, [&](int64_t row, int64_t count, std::span<uint8_t> part) {
                                return ReadStored(*tensor, static_cast<uint64_t>(row),
                                                  static_cast<uint64_t>(count), part);
                              });
}

absl::Status CheckpointReader::ReadHashedRows(const std::string& variable, const std::string& slot,
                                              DType dtype, const HashedRows& hashed,
                                              HashedRows::Place first, uint64_t rows,
                                              std::span<uint8_t> out) const {
  COHORT_ASSIGN_OR_RETURN(const LogicalTensor* const tensor, FindRows(variable, slot));
  COHORT_RETURN_IF_ERROR(CheckSize(*tensor, dtype, rows, out.size()));
  if (tensor->hashed == hashed) {
    const int64_t begin = hashed.BeginOf(first.shard) + first.row;
    return ReadStored(*tensor, static_cast<uint64_t>(begin), rows, out);
  }
  return ReadHashedShard(hashed, first, RowBytes(*tensor), out,
                         [&](int64_t row, int64_t count, std::span<uint8_t> groups) {
                           return ReadRows(variable, slot, dtype, static_cast<uint64_t>(row),
                                           static_cast<uint64_t>(count), groups);
                         });
}

absl::StatusOr<Tensor> CheckpointReader::Read(const std::string& variable,
                                              const std::string& slot) const {
  const LogicalTensor* tensor = Find(variable, slot);
  if (tensor == nullptr) {
    return NotFound("{} has no tensor \"{}{}{}\"", IdOf(*manifest_).ToString(), variable,
                    slot.empty() ? "" : "@", slot);
  }
  Tensor result(tensor->dtype, IsTable(tensor->dims) ? PieceDims(tensor->dims, 0) : tensor->dims);
  COHORT_RETURN_IF_ERROR(ReadRows(variable, slot, tensor->dtype, 0, RowsOf(tensor->dims),
                                  {static_cast<uint8_t*>(result.raw()), result.num_bytes()}));
  return result;
}

}  // namespace cohort
