#include "common/checkpoint/checkpoint_reader.h"

#include <algorithm>

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

// A piece must have the dtype and the dims that the variable's rows have.
absl::Status CheckPiece(const LogicalTensor& tensor, const ShardTensorName& name,
                        const TensorInfo& info) {
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
  if (info.dims != expected || name.row_end > RowsOf(tensor.dims)) {
    return DataLoss("tensor \"{}\" has shape {}; its variable has {}", info.name,
                    DimsToString(info.dims), DimsToString(tensor.dims));
  }
  return absl::OkStatus();
}

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
  COHORT_RETURN_IF_ERROR(VerifyFiles(directory, manifest, options.verify_checksums));
  std::unique_ptr<CheckpointReader> reader(new CheckpointReader());
  reader->manifest_ = std::make_unique<v1::Manifest>(std::move(manifest));
  for (const v1::VariableSpec& variable : reader->manifest_->layout().variables()) {
    LogicalTensor tensor;
    tensor.variable = variable.name();
    tensor.dtype = static_cast<DType>(variable.dtype());
    tensor.dims.assign(variable.dims().begin(), variable.dims().end());
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
  const absl::Status complete = reader->Complete();
  if (!complete.ok()) return Annotate(complete, path);
  return reader;
}

absl::Status CheckpointReader::AddFile(const std::string& path) {
  COHORT_ASSIGN_OR_RETURN(auto file, SafetensorsReader::Open(path));
  for (const TensorInfo& info : file->tensors()) {
    const auto name = ShardTensorName::Parse(info.name);
    if (!name.has_value()) {
      return DataLoss("{}: \"{}\" is not the name of a shard", path, info.name);
    }
    const auto variable = tensors_.find({name->variable, ""});
    if (variable == tensors_.end()) {
      return DataLoss("{}: tensor \"{}\" belongs to no variable of the manifest", path, info.name);
    }
    const auto checked = CheckPiece(variable->second, *name, info);
    if (!checked.ok()) return Annotate(checked, path);
    auto& tensor = tensors_[{name->variable, name->slot}];
    if (tensor.variable.empty()) {
      tensor.variable = name->variable;
      tensor.slot = name->slot;
      tensor.dtype = variable->second.dtype;
      tensor.dims = variable->second.dims;
      if (IsTable(tensor.dims) && IsSlotOfTable(tensor.slot)) {
        tensor.dtype = DType::kInt64;
      }
      if (IsByRow(tensor, *name, info)) tensor.dims.resize(1);
    }
    if (tensor.dims.size() != info.dims.size()) {
      return DataLoss("{}: tensor \"{}\" has shape {}; other rows of it have {} axes", path,
                      info.name, DimsToString(info.dims), tensor.dims.size());
    }
    tensor.pieces.push_back({name->row_begin, name->row_end, files_.size(), info});
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

uint64_t CheckpointReader::TableSize(const std::string& variable) const {
  const LogicalTensor* const keys = Find(variable, kKeysSlot);
  uint64_t rows = 0;
  if (keys == nullptr) return rows;
  for (const StoredPiece& piece : keys->pieces) rows += static_cast<uint64_t>(piece.info.dims[0]);
  return rows;
}

absl::Status CheckpointReader::ReadTable(const std::string& variable, const std::string& keys_slot,
                                         std::span<const std::string> slots, uint64_t row_begin,
                                         uint64_t rows, RowAdder add) const {
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
  const uint64_t row_end = row_begin + rows;
  for (size_t p = 0; p < keys->pieces.size(); ++p) {
    const StoredPiece& piece = keys->pieces[p];
    if (piece.row_end <= row_begin || piece.row_begin >= row_end) continue;
    std::vector<StoredPiece> parts;
    for (const LogicalTensor* tensor : tensors) parts.push_back(tensor->pieces[p]);
    COHORT_RETURN_IF_ERROR(ReadTablePiece(piece, parts, row_begin, row_end, add));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::ReadTablePiece(const StoredPiece& keys,
                                              std::span<const StoredPiece> parts,
                                              uint64_t row_begin, uint64_t row_end,
                                              RowAdder add) const {
  constexpr uint64_t kAtOnce = 8192;
  const auto total = static_cast<uint64_t>(keys.info.dims[0]);
  uint64_t next = keys.row_begin;  // the smallest row that may come
  std::vector<int64_t> numbers;
  std::vector<std::vector<uint8_t>> memory(parts.size());
  for (uint64_t begin = 0; begin < total; begin += kAtOnce) {
    const uint64_t count = std::min(kAtOnce, total - begin);
    numbers.resize(count);
    COHORT_RETURN_IF_ERROR(
        files_[keys.file]->ReadBytes(keys.info, begin * sizeof(int64_t), count * sizeof(int64_t),
                                     reinterpret_cast<uint8_t*>(numbers.data())));
    for (int64_t& number : numbers) {
      const auto row = static_cast<uint64_t>(RowOfKey(number));
      if (row < next || row >= keys.row_end) {
        return DataLoss("\"{}\": the key {} is out of order", keys.info.name, number);
      }
      next = row + 1;
      number = static_cast<int64_t>(row);
    }
    // Those that are wanted lie together.
    const auto first = static_cast<uint64_t>(
        std::ranges::lower_bound(numbers, static_cast<int64_t>(row_begin)) - numbers.begin());
    const auto last = static_cast<uint64_t>(
        std::ranges::lower_bound(numbers, static_cast<int64_t>(row_end)) - numbers.begin());
    if (first == last) continue;
    std::vector<std::span<const uint8_t>> tensors;
    for (size_t t = 0; t < parts.size(); ++t) {
      const TensorInfo& info = parts[t].info;
      if (info.dims[0] != keys.info.dims[0]) {
        return DataLoss("\"{}\" has {} rows, and there are {} keys", info.name, info.dims[0],
                        total);
      }
      const auto row_bytes =
          static_cast<uint64_t>(NumElements(info.dims) / info.dims[0]) * SizeOf(info.dtype);
      memory[t].resize((last - first) * row_bytes);
      COHORT_RETURN_IF_ERROR(files_[parts[t].file]->ReadBytes(info, (begin + first) * row_bytes,
                                                              memory[t].size(), memory[t].data()));
      tensors.push_back(memory[t]);
    }
    for (int64_t& number : numbers) number -= static_cast<int64_t>(row_begin);
    COHORT_RETURN_IF_ERROR(add({numbers.data() + first, last - first}, tensors));
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

absl::Status CheckpointReader::ReadRows(const std::string& variable, const std::string& slot,
                                        DType dtype, uint64_t row_begin, uint64_t rows,
                                        std::span<uint8_t> out) const {
  const LogicalTensor* tensor = Find(variable, slot);
  if (tensor == nullptr) {
    return NotFound("{} has no tensor \"{}{}{}\"", IdOf(*manifest_).ToString(), variable,
                    slot.empty() ? "" : "@", slot);
  }
  if (IsTable(tensor->dims)) {
    return InvalidArgument("{} is a table without bounds: only its rows that exist can be read",
                           NameOf(*tensor));
  }
  COHORT_ASSIGN_OR_RETURN(const auto reads, PlanRows(*tensor, row_begin, rows));
  const uint64_t row_bytes = RowBytes(*tensor);
  if (tensor->dtype != dtype || out.size() != rows * row_bytes) {
    return InvalidArgument("{} rows of {} are {} bytes of {}, not {} of {}", rows, NameOf(*tensor),
                           rows * row_bytes, DTypeName(tensor->dtype), out.size(),
                           DTypeName(dtype));
  }
  for (const PlannedRead& read : reads) {
    const StoredPiece& piece = *read.piece;
    COHORT_RETURN_IF_ERROR(
        files_[piece.file]->ReadBytes(piece.info, (read.row_begin - piece.row_begin) * row_bytes,
                                      (read.row_end - read.row_begin) * row_bytes,
                                      out.data() + (read.row_begin - row_begin) * row_bytes));
  }
  return absl::OkStatus();
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
