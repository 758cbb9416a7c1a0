#include "common/data/records/tf_record_file.h"

#include <algorithm>
#include <cstring>

#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/data/files/compression.h"

namespace cohort {
namespace {

constexpr uint64_t kHeaderBytes = 12;     // length, checksum
constexpr uint64_t kTrailerBytes = 4;     // checksum
constexpr uint64_t kMostBytes = 1 << 30;  // no record of an example needs more

// A read of kPieceBytes takes about as long as a few small ones. So records are read together, and
// headers of records up to kSmallBytes with what lies between them.
constexpr uint64_t kPieceBytes = 64 << 10;
constexpr uint64_t kSmallBytes = 4 << 10;

}  // namespace

absl::StatusOr<TfRecordFile> TfRecordFile::Open(const InputFile& file, const DataOptions& options,
                                                absl::Status* torn) {
  COHORT_ASSIGN_OR_RETURN(FileBytes bytes, FileBytes::Open(file, options));
  TfRecordFile records(std::move(bytes));
  absl::Status found = records.FindRecords();
  // As a length, the first bytes of a packed file would need the right checksum.
  if (!found.ok() && records.records() == 0) {
    COHORT_ASSIGN_OR_RETURN(records.file_, InflateIfPacked(std::move(records.file_), options.log));
    found = records.FindRecords();
  }
  if (!found.ok() && (torn == nullptr || !absl::IsDataLoss(found))) return found;
  if (torn != nullptr) *torn = std::move(found);
  return records;
}

absl::StatusOr<uint64_t> TfRecordFile::LengthOf(uint64_t offset, std::string_view header) const {
  const auto where = [&] {
    return fmt::format("{}: record {} at byte {}", file_.path(), offsets_.size(), offset);
  };
  if (header.size() < kHeaderBytes) return DataLoss("{}: is truncated", where());
  uint64_t length = 0;
  uint32_t crc = 0;
  std::memcpy(&length, header.data(), sizeof(length));
  std::memcpy(&crc, header.data() + sizeof(length), sizeof(crc));
  if (MaskedCrc32c(header.substr(0, sizeof(length))) != crc) {
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
  std::string piece;
  uint64_t begin = 0;  // the offset of the piece
  uint64_t length = 0;
  for (uint64_t offset = 0; offset < file_.size(); offset = end_) {
    if (offset + kHeaderBytes > begin + piece.size()) {
      begin = offset;
      const uint64_t bytes = length <= kSmallBytes ? kPieceBytes : kHeaderBytes;
      piece.resize(std::min(bytes, file_.size() - begin));
      COHORT_RETURN_IF_ERROR(file_.Read(begin, std::as_writable_bytes(std::span<char>(piece))));
    }
    COHORT_ASSIGN_OR_RETURN(length,
                            LengthOf(offset, std::string_view(piece).substr(offset - begin)));
    offsets_.push_back(offset);
    end_ = offset + kHeaderBytes + length + kTrailerBytes;
  }
  return absl::OkStatus();
}

uint64_t TfRecordFile::CountOfPiece(uint64_t first, uint64_t most) const {
  uint64_t count = 1;
  most = std::min(most, records() - first);
  while (count < most && EndOf(first + count) - offsets_[first] <= kPieceBytes) ++count;
  return count;
}

absl::Status TfRecordFile::ReadPiece(uint64_t first, uint64_t count, std::string* piece) const {
  piece->resize(EndOf(first + count - 1) - offsets_[first]);
  return file_.Read(offsets_[first], std::as_writable_bytes(std::span<char>(*piece)));
}

absl::StatusOr<std::string_view> TfRecordFile::RecordOf(std::string_view piece, uint64_t first,
                                                        uint64_t record) const {
  const uint64_t begin = offsets_[record] - offsets_[first] + kHeaderBytes;
  const uint64_t end = EndOf(record) - offsets_[first] - kTrailerBytes;
  uint32_t crc = 0;
  std::memcpy(&crc, piece.data() + end, kTrailerBytes);
  const std::string_view bytes = piece.substr(begin, end - begin);
  if (MaskedCrc32c(bytes) == crc) return bytes;
  return DataLoss("{}: record {} at byte {}: its checksum differs", file_.path(), record,
                  offsets_[record]);
}

absl::StatusOr<std::string_view> TfRecordFile::Read(uint64_t record, std::string* piece) const {
  COHORT_RETURN_IF_ERROR(ReadPiece(record, 1, piece));
  return RecordOf(*piece, record, record);
}

}  // namespace cohort
