// cohort-read-hdf5 FILE: writes the weights of Keras' FILE to its standard output, as a safetensors
// file. OpenKerasWeights starts it.
//
// The HDF5 library has errors that damaged files reach. So this process has nothing worth taking:
// it opens files for reading only, starts no program, has no network, and its memory, its time and
// what it writes have limits.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/safetensors_format.h"
#include "common/weights/keras_file.h"
#include "common/weights/keras_file_output.h"
#include "common/weights/restrict_process.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

// Bytes of tensors for each byte of the file: the narrowest numbers become int64.
constexpr uint64_t kMostPerByte = 8;
constexpr uint64_t kFreeBytes = 1 << 20;  // for names and for what is empty

absl::Status WriteAll(const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(STDOUT_FILENO, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ResourceExhausted("cannot write: {}", std::strerror(errno));
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

// A tensor of a type that no variable has is written as bytes, all 0, and kOtherTypeKey marks it.
DType WrittenType(const SourceTensor& tensor) {
  return tensor.dtype == DType::kInvalid ? DType::kUint8 : tensor.dtype;
}

std::string WrittenName(const SourceTensor& tensor) {
  std::string name = tensor.name;
  if (tensor.model_bytes > 0) name[tensor.model_bytes - 1] = kModelEnd;
  return name;
}

absl::StatusOr<Json> HeaderOf(const KerasFile& file, uint64_t most_bytes) {
  Json header = Json::object();
  if (!file.names_layers()) header[safetensors::kMetadataKey][kByClassKey] = "";
  uint64_t at = 0;
  for (const KerasFile::Dataset& dataset : file.datasets()) {
    const SourceTensor& tensor = dataset.tensor;
    const auto bytes = safetensors::BytesOf(WrittenType(tensor), tensor.dims);
    if (!bytes.has_value() || *bytes > most_bytes - at) {
      return DataLoss("the shape {} of /{} is too large for the size of the file",
                      DimsToString(tensor.dims), dataset.path);
    }
    const std::string name = WrittenName(tensor);
    if (tensor.name.find(kModelEnd) != tensor.name.npos || header.contains(name)) {
      return InvalidArgument("it has two tensors \"{}\", or a line break in a name", tensor.name);
    }
    header[name] = {{"dtype", safetensors::NameOf(WrittenType(tensor))},
                    {"shape", tensor.dims},
                    {"data_offsets", {at, at + *bytes}}};
    if (tensor.dtype == DType::kInvalid) {
      header[safetensors::kMetadataKey][kOtherTypeKey + name] = "";
    }
    at += *bytes;
  }
  return header;
}

absl::Status WriteTensors(KerasFile* file, uint64_t most_bytes) {
  COHORT_ASSIGN_OR_RETURN(const Json header, HeaderOf(*file, most_bytes));
  const std::string text = header.dump(-1, ' ', true, Json::error_handler_t::replace);
  uint8_t length[safetensors::kLengthBytes];
  for (size_t i = 0; i < sizeof(length); ++i) {
    length[i] = static_cast<uint8_t>(uint64_t{text.size()} >> (8 * i));
  }
  COHORT_RETURN_IF_ERROR(WriteAll(length, sizeof(length)));
  COHORT_RETURN_IF_ERROR(WriteAll(text.data(), text.size()));
  for (const KerasFile::Dataset& dataset : file->datasets()) {
    const SourceTensor& tensor = dataset.tensor;
    std::vector<uint8_t> values(*safetensors::BytesOf(WrittenType(tensor), tensor.dims));
    if (tensor.dtype != DType::kInvalid) COHORT_RETURN_IF_ERROR(file->Read(dataset, values));
    COHORT_RETURN_IF_ERROR(WriteAll(values.data(), values.size()));
  }
  return absl::OkStatus();
}

absl::Status Run(const std::string& path) {
  struct stat file = {};
  if (::stat(path.c_str(), &file) != 0) {
    return DataLoss("{}: it cannot be read: {}", path, std::strerror(errno));
  }
  const uint64_t most_bytes = static_cast<uint64_t>(file.st_size) * kMostPerByte + kFreeBytes;
  COHORT_RETURN_IF_ERROR(RestrictProcess(most_bytes));
  COHORT_ASSIGN_OR_RETURN(const auto opened, KerasFile::Open(path));
  return Annotate(WriteTensors(opened.get(), most_bytes), path);
}

// The error takes the place of the tensors.
int Main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    constexpr std::string_view kUsage =
        "usage: cohort-read-hdf5 FILE > FILE.safetensors\nCohort starts it to read weights.\n";
    [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kUsage.data(), kUsage.size());
    return static_cast<int>(ExitCode::kUsage);
  }
  const absl::Status done = Run(argv[1]);
  if (done.ok()) return 0;
  [[maybe_unused]] const bool cut =
      ::ftruncate(STDOUT_FILENO, 0) == 0 && ::lseek(STDOUT_FILENO, 0, SEEK_SET) == 0;
  [[maybe_unused]] const absl::Status said = WriteAll(done.message().data(), done.message().size());
  return absl::IsInvalidArgument(done) ? kInvalidArgumentCode : static_cast<int>(ExitCode::kData);
}

}  // namespace
}  // namespace cohort

// The library's cleaning at exit is not needed, and could meet what a damaged file has left.
int main(int argc, char** argv) { ::_exit(cohort::Main(argc, argv)); }
