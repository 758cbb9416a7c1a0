#include "common/data/records/tf_record_file.h"

#include <array>
#include <cstring>

#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/data/files/compression.h"

namespace cohort {
namespace {

constexpr uint64_t kHeaderBytes = 12;     // length, checksum
constexpr uint64_t kTrailerBytes = 4;     // checksum
constexpr uint64_t kMostBytes = 1 << 30;  // no record of an example needs more

}  // namespace

absl::StatusOr<TfRecordFile> TfRecordFile::Open(const InputFile& file, const DataOptions& options,
                                                absl::Status* torn) {
  COHORT_ASSIGN_OR_RETURN(FileBytes bytes, FileBytes::Open(file, options));
  TfRecordFile records(std::move(bytes));
  // As a length, the first bytes of a packed file would need the right checksum.
  if (!records.ReadLength(0).ok()) {
    COHORT_ASSIGN_OR_RETURN(records.file_, InflateIfPacked(std::move(records.file_), options.log));
  }
  absl::Status found = records.FindRecords();
  if (!found.ok() && (torn == nullptr || !absl::IsDataLoss(found))) return found;
  if (torn != nullptr) *torn = std::move(found);
  return records;
}

absl::StatusOr<uint64_t> TfRecordFile::ReadLength(uint64_t offset) const {
  const auto where = [&] {
    return fmt::format("{}: record {} at byte {}", file_.path(), offsets_.size(), offset);
  };
  if (file_.size() - offset < kHeaderBytes) return DataLoss("{}: is truncated", where());
  std::array<char, kHeaderBytes> header;
  COHORT_RETURN_IF_ERROR(file_.Read(offset, std::as_writable_bytes(std::span<char>(header))));
  uint64_t length = 0;
  uint32_t crc = 0;
  std::memcpy(&length, header.data(), sizeof(length));
  std::memcpy(&crc, header.data() + sizeof(length), sizeof(crc));
  if (MaskedCrc32c({header.data(), sizeof(length)}) != crc) {
    return DataLoss("{}: the checksum of its length differs", where());
  }
  if (length > kMostBytes) {
    return DataLoss("{}: has {} bytes, at most {} are read", where(), length, kMostBytes);
  }
  if (file_.size() - offset < kHeaderBytes + length + kTrailerBytes) {
    return DataLoss("{}: is truncated", where());
  }
  return length;
}

absl::Status TfRecordFile::FindRecords() {
  uint64_t offset = 0;
  while (offset < file_.size()) {
    COHORT_ASSIGN_OR_RETURN(const uint64_t length, ReadLength(offset));
    offsets_.push_back(offset);
    offset += kHeaderBytes + length + kTrailerBytes;
    end_ = offset;
  }
  return absl::OkStatus();
}

absl::Status TfRecordFile::Read(uint64_t record, std::string* bytes) const {
  const uint64_t begin = offsets_[record] + kHeaderBytes;
  const uint64_t end = record + 1 < offsets_.size() ? offsets_[record + 1] : end_;
  bytes->resize(end - begin);
  COHORT_RETURN_IF_ERROR(file_.Read(begin, std::as_writable_bytes(std::span<char>(*bytes))));
  uint32_t crc = 0;
  std::memcpy(&crc, bytes->data() + bytes->size() - kTrailerBytes, kTrailerBytes);
  bytes->resize(bytes->size() - kTrailerBytes);
  if (MaskedCrc32c(*bytes) == crc) return absl::OkStatus();
  return DataLoss("{}: record {} at byte {}: its checksum differs", file_.path(), record,
                  offsets_[record]);
}

}  // namespace cohort
