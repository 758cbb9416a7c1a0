#include "common/weights/weight_source.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/file.h"

namespace cohort {
namespace {

template <typename From, typename To>
void Convert(const Tensor& from, Tensor* to) {
  const auto values = from.values<From>();
  std::transform(values.begin(), values.end(), to->mutable_values<To>().begin(),
                 [](From value) { return static_cast<To>(value); });
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
  const bool converts = IsFloating(from.dtype) && IsFloating(dtype);
  if (from.dtype == DType::kInvalid || (from.dtype != dtype && !converts)) {
    return InvalidArgument("{}: \"{}\" has the type {}, and the variable is {}", path_, from.name,
                           DTypeName(from.dtype), DTypeName(dtype));
  }
  Tensor own(from.dtype, from.dims);
  COHORT_RETURN_IF_ERROR(ReadInto(from, {static_cast<uint8_t*>(own.raw()), own.num_bytes()}));
  if (from.dtype == dtype) return own;
  Tensor converted(dtype, from.dims);
  if (dtype == DType::kFloat32) {
    Convert<double, float>(own, &converted);
  } else {
    Convert<float, double>(own, &converted);
  }
  return converted;
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
