#ifndef COHORT_COMMON_DATA_ARRAYS_ZIP_FILE_H_
#define COHORT_COMMON_DATA_ARRAYS_ZIP_FILE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "common/data/file_bytes.h"

// They belong to libzip.
struct zip;
struct zip_file;

namespace cohort {

// A member of a ZIP file.
struct ZipMember {
  uint64_t index = 0;  // in the directory
  std::string name;
  bool deflated = false;
  uint32_t crc32 = 0;   // checksum of the contents
  uint64_t bytes = 0;   // size of the contents
  uint64_t packed = 0;  // bytes in the file
};

// A ZIP file, which libzip reads. Thread-safe.
class ZipFile {
 public:
  // Errors: DataLoss that begins with the path; InvalidArgument for encrypted members and methods
  // other than store and deflate.
  static absl::StatusOr<std::shared_ptr<ZipFile>> Open(const FileBytes& file);

  // In the order of the directory.
  const std::vector<ZipMember>& members() const { return members_; }

  // Reads a member, inflates it and compares its checksum. Errors: DataLoss.
  absl::StatusOr<std::string> Read(const ZipMember& member);
  // Reads bytes [offset, offset + out.size()) of a member that is not packed. Errors: DataLoss.
  absl::Status ReadAt(const ZipMember& member, uint64_t offset, std::span<std::byte> out);

 private:
  struct Close {
    void operator()(zip* archive) const;
    void operator()(zip_file* member) const;
  };

  ZipFile(std::string path, uint64_t bytes) : path_(std::move(path)), file_bytes_(bytes) {}
  absl::Status Damaged(std::string_view what) const;
  absl::StatusOr<ZipMember> ReadEntry(uint64_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  const uint64_t file_bytes_;
  std::vector<ZipMember> members_;  // constant after Open
  Mutex mu_;
  std::unique_ptr<zip, Close> archive_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, std::unique_ptr<zip_file, Close>> open_ ABSL_GUARDED_BY(mu_);  // for ReadAt
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_ARRAYS_ZIP_FILE_H_
