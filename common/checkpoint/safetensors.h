#ifndef COHORT_COMMON_CHECKPOINT_SAFETENSORS_H_
#define COHORT_COMMON_CHECKPOINT_SAFETENSORS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/file.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The safetensors format (https://github.com/huggingface/safetensors, "Format"):
//
//   uint64 n, little-endian | n bytes of JSON, padded with spaces to a multiple of 8 | data
//
//   {"__metadata__": {"key": "value", ...},
//    "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
//
// Offsets count from the start of the data; the tensors fill the data without holes or overlaps.
// Elements are row-major and little-endian.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kInvalid;
  Dims dims;
  uint64_t offset = 0;  // in the file
  uint64_t bytes = 0;
};

// Writes one file from front to back, and never holds more than a block of it:
//
//   Create(path, {{"w", DType::kFloat32, {2, 3}}, ...}, {});  Append(block, bytes) ...;  Finish();
//
// If writing fails or is not finished, the file is removed.
class SafetensorsWriter {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::kInvalid;
    Dims dims;
  };
  using Metadata = std::map<std::string, std::string>;
  struct Result {
    uint64_t bytes = 0;
    uint32_t crc32 = 0;  // over the whole file
  };

  // The header comes first, so all tensors are named at the start, in the order of their bytes.
  // Errors: InvalidArgument (two tensors with one name, a bad dtype), those of DurableFile.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, const std::vector<Entry>& entries, const Metadata& metadata);
  ~SafetensorsWriter();

  // Appends the next bytes of the data; a block may end inside a tensor.
  // Errors: ResourceExhausted (disk full), OutOfRange (more bytes than the entries have).
  absl::Status Append(const void* data, size_t bytes);

  // Makes the file durable; the caller syncs the directory when it commits. `progress`: see
  // DurableFile::Sync. Errors: FailedPrecondition if bytes are missing.
  absl::StatusOr<Result> Finish(const std::function<void(uint64_t bytes)>& progress = nullptr);

 private:
  SafetensorsWriter(std::unique_ptr<DurableFile> file, uint64_t data_bytes);

  std::unique_ptr<DurableFile> file_;
  uint64_t missing_;  // bytes of data still to come
  uint32_t crc_ = 0;
  bool finished_ = false;
};

// Reads one file. Open reads the header and checks each name, dtype, shape and offset in it against
// the size of the file, so that every later read stays inside the file. Thread-safe.
class SafetensorsReader {
 public:
  // Errors: NotFound; DataLoss that names the file and the reason.
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> Open(const std::string& path);

  // In the order of their bytes.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Null if the name is unknown.
  const TensorInfo* Find(const std::string& name) const;

  // Reads bytes [begin, begin + count) of a tensor of this file. Errors: OutOfRange beyond its end.
  absl::Status ReadBytes(const TensorInfo& info, uint64_t begin, uint64_t count, void* out) const;

  uint64_t file_bytes() const { return file_->size(); }
  const std::string& path() const { return file_->path(); }

 private:
  explicit SafetensorsReader(std::unique_ptr<RandomFile> file) : file_(std::move(file)) {}

  std::unique_ptr<RandomFile> file_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t> by_name_;
  std::map<std::string, std::string> metadata_;
};

// Compares the size and the CRC-32 of a whole file. Errors: DataLoss that names the file, the
// expected value and the actual one.
absl::Status VerifyFile(const std::string& path, uint64_t bytes, uint32_t crc32);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_SAFETENSORS_H_
