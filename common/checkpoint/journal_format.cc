#include "common/checkpoint/journal_format.h"

#include <optional>

#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/format_version.h"
#include "common/metrics/metric_proto.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

constexpr size_t kFrameBytes = 8;
// Every record starts with its number, field 1: this byte. It makes the search after damage cheap.
constexpr char kFirstByte = 0x08;

void AppendUint32(uint32_t value, std::string* out) {
  for (int i = 0; i < 4; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

uint32_t ReadUint32(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

// The whole record at the start of `bytes`, if there is one; `size` receives its bytes with the
// frame.
std::optional<v1::JournalRecord> ParseAt(std::string_view bytes, size_t* size) {
  if (bytes.size() <= kFrameBytes || bytes[kFrameBytes] != kFirstByte) return std::nullopt;
  const uint32_t length = ReadUint32(bytes);
  if (length == 0 || length > kMaxJournalRecordBytes || length > bytes.size() - kFrameBytes) {
    return std::nullopt;
  }
  const std::string_view body = bytes.substr(kFrameBytes, length);
  if (Crc32(0, body.data(), body.size()) != ReadUint32(bytes.substr(4))) return std::nullopt;
  v1::JournalRecord record;
  if (!record.ParseFromArray(body.data(), static_cast<int>(body.size()))) return std::nullopt;
  *size = kFrameBytes + length;
  return record;
}

// Every segment begins with a start or a base, which carry the version of the format.
absl::Status CheckFormatOf(const v1::JournalRecord& record, std::string_view path) {
  const auto check = [path](const auto& body) {
    return CheckFormat(path, body.format_version(), kJournalFormat, body.cohort_version());
  };
  if (record.has_start()) return check(record.start());
  if (record.has_base()) return check(record.base());
  return absl::OkStatus();
}

absl::Status CheckMetrics(const v1::JournalRecord& record) {
  switch (record.body_case()) {
    case v1::JournalRecord::kSettle:
      return CheckMetricValues(record.settle().metrics());
    case v1::JournalRecord::kEpoch:
      return CheckMetricValues(record.epoch().metrics());
    case v1::JournalRecord::kBase:
      return CheckMetricValues(record.base().metrics());
    default:
      return absl::OkStatus();
  }
}

// The offset of the next whole record after the start of `bytes`.
std::optional<size_t> FindRecord(std::string_view bytes) {
  size_t size = 0;
  for (size_t at = 1; at + kFrameBytes < bytes.size(); ++at) {
    if (ParseAt(bytes.substr(at), &size).has_value()) return at;
  }
  return std::nullopt;
}

}  // namespace

absl::Status AppendJournalFrame(const v1::JournalRecord& record, std::string* out) {
  if (record.number() == 0) return InvalidArgument("a journal record has no number");
  const std::string body = record.SerializeAsString();
  if (body.size() > kMaxJournalRecordBytes) {
    return InvalidArgument("journal record {} has {} bytes, at most {} are allowed",
                           record.number(), body.size(), kMaxJournalRecordBytes);
  }
  AppendUint32(static_cast<uint32_t>(body.size()), out);
  AppendUint32(Crc32(0, body.data(), body.size()), out);
  out->append(body);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::JournalRecord>> ParseJournal(std::string_view bytes,
                                                            std::string_view path,
                                                            uint64_t* torn_bytes) {
  std::vector<v1::JournalRecord> records;
  size_t at = 0;
  while (at < bytes.size()) {
    size_t size = 0;
    auto record = ParseAt(bytes.substr(at), &size);
    if (!record.has_value()) break;
    COHORT_RETURN_IF_ERROR(CheckFormatOf(*record, path));
    if (const absl::Status metrics = CheckMetrics(*record); !metrics.ok()) {
      return DataLoss("{}: record {} at byte {}: {}", path, record->number(), at,
                      std::string(metrics.message()));
    }
    records.push_back(*std::move(record));
    at += size;
  }
  if (const auto next = FindRecord(bytes.substr(at)); next.has_value()) {
    return DataLoss("{}: damaged at byte {}: no whole record there, but one at byte {}", path, at,
                    at + *next);
  }
  if (torn_bytes != nullptr) *torn_bytes = bytes.size() - at;
  return records;
}

}  // namespace cohort
