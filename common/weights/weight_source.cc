#include "common/weights/weight_source.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/shard_names.h"
#include "common/tensor/table_rows.h"

namespace cohort {
namespace {

template <typename From, typename To>
void Convert(std::span<const uint8_t> from, void* to) {
  const std::span values(reinterpret_cast<const From*>(from.data()), from.size() / sizeof(From));
  std::transform(values.begin(), values.end(), static_cast<To*>(to),
                 [](From value) { return static_cast<To>(value); });
}

// From the other floating type to `dtype`.
void ConvertTo(DType dtype, std::span<const uint8_t> from, void* to) {
  if (dtype == DType::kFloat32) {
    Convert<double, float>(from, to);
  } else {
    Convert<float, double>(from, to);
  }
}

// True if the file begins as an HDF5 file does.
absl::StatusOr<bool> IsHdf5(const std::string& path) {
  constexpr std::string_view kMagic = "\x89HDF\r\n\x1a\n";
  COHORT_ASSIGN_OR_RETURN(const auto file, RandomFile::Open(path));
  if (file->size() < kMagic.size()) return false;
  std::string begin(kMagic.size(), '\0');
  COHORT_RETURN_IF_ERROR(file->Read(0, begin.data(), begin.size()));
  return begin == kMagic;
}

}  // namespace

absl::Status WeightSource::SetTensors(std::vector<SourceTensor> tensors) {
  tensors_ = std::move(tensors);
  std::sort(tensors_.begin(), tensors_.end(),
            [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(
      tensors_.begin(), tensors_.end(),
      [](const SourceTensor& a, const SourceTensor& b) { return a.name == b.name; });
  if (twice == tensors_.end()) return absl::OkStatus();
  return InvalidArgument("{}: it has two tensors \"{}\"", path_, twice->name);
}

absl::StatusOr<Tensor> WeightSource::Read(size_t index, DType dtype) {
  const SourceTensor& from = tensors_[index];
  COHORT_RETURN_IF_ERROR(CheckType(from, dtype));
  Tensor own(from.dtype, from.dims);
  COHORT_RETURN_IF_ERROR(ReadInto(from, {static_cast<uint8_t*>(own.raw()), own.num_bytes()}));
  if (from.dtype == dtype) return own;
  Tensor converted(dtype, from.dims);
  ConvertTo(dtype, {static_cast<const uint8_t*>(own.raw()), own.num_bytes()}, converted.raw());
  return converted;
}

absl::Status WeightSource::CheckType(const SourceTensor& tensor, DType dtype) const {
  const bool converts = IsFloating(tensor.dtype) && IsFloating(dtype);
  if (tensor.dtype != DType::kInvalid && (tensor.dtype == dtype || converts)) {
    return absl::OkStatus();
  }
  return InvalidArgument("{}: \"{}\" has the type {}, and the variable is {}", path_, tensor.name,
                         DTypeName(tensor.dtype), DTypeName(dtype));
}

absl::Status WeightSource::ReadTable(size_t index, std::optional<DType> dtype, RowTaker take) {
  const SourceTensor& from = tensors_[index];
  if (!dtype.has_value()) return ReadTableInto(from, /*values=*/false, take);
  COHORT_RETURN_IF_ERROR(CheckType(from, *dtype));
  if (from.dtype == *dtype) return ReadTableInto(from, /*values=*/true, take);
  std::vector<uint8_t> converted;
  return ReadTableInto(from, /*values=*/true, [&](auto keys, std::span<const uint8_t> values) {
    converted.resize(values.size() / SizeOf(from.dtype) * SizeOf(*dtype));
    ConvertTo(*dtype, values, converted.data());
    return take(keys, converted);
  });
}

absl::Status WeightSource::ReadTableInto(const SourceTensor& table, bool /*values*/,
                                         RowTaker /*take*/) {
  return Unimplemented("{}: this kind of file has no tables without bounds (\"{}\")", path_,
                       table.name);
}

std::string KeysNameOf(const std::string& table) { return fmt::format("{}@{}", table, kKeysSlot); }

absl::Status AddEntries(const WeightSource& source, size_t index, const std::string& name,
                        DType dtype, std::vector<SafetensorsWriter::Entry>* entries) {
  const SourceTensor& tensor = source.tensors()[index];
  if (!IsTable(tensor.dims)) {
    entries->push_back({name, dtype, tensor.dims});
    return absl::OkStatus();
  }
  COHORT_ASSIGN_OR_RETURN(const uint64_t rows, source.TableSize(tensor));
  entries->push_back({KeysNameOf(name), DType::kInt64, {static_cast<int64_t>(rows)}});
  entries->push_back({name, dtype, PieceDims(tensor.dims, rows)});
  return absl::OkStatus();
}

absl::Status AppendTo(WeightSource* source, size_t index, DType dtype, SafetensorsWriter* writer) {
  if (IsTable(source->tensors()[index].dims)) {
    COHORT_RETURN_IF_ERROR(source->ReadTable(index, std::nullopt, [&](auto keys, auto) {
      return writer->Append(keys.data(), keys.size_bytes());
    }));
    return source->ReadTable(index, dtype, [&](auto, auto values) {
      return writer->Append(values.data(), values.size());
    });
  }
  COHORT_ASSIGN_OR_RETURN(const Tensor values, source->Read(index, dtype));
  return writer->Append(values.raw(), values.num_bytes());
}

absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeights(const std::string& path) {
  std::error_code unknown;
  const bool is_manifest = std::filesystem::path(path).filename() == kManifestName;
  if (is_manifest || std::filesystem::is_directory(path, unknown)) {
    return OpenCheckpointWeights(path);
  }
  COHORT_ASSIGN_OR_RETURN(const bool is_hdf5, IsHdf5(path));
  if (is_hdf5) return OpenKerasWeights(path);
  if (path.ends_with(".keras")) {
    return InvalidArgument(
        "{}: weights are not read from .keras files: load the model in Keras and write them with "
        "model.save_weights(\"model.weights.h5\")",
        path);
  }
  return OpenSafetensorsWeights(path);
}

}  // namespace cohort
