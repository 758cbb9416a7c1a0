#include "common/report/event_file.h"

#include <unistd.h>

#include <atomic>

#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/os/identity.h"
#include "common/report/wire_text.h"

namespace cohort {
namespace {

std::string EncodeValue(const std::string& tag, double value) {
  return Encode([&](CodedOutputStream* out) {
    WireFormatLite::WriteString(1, tag, out);
    WireFormatLite::WriteFloat(2, static_cast<float>(value), out);
  });
}

void AppendFixed32(uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

std::string NewPath(const std::string& directory, const Clock& clock) {
  static std::atomic<int> files{0};  // makes names of one process unique
  return fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", directory,
                     clock.UnixMicros() / 1'000'000, HostName(), getpid(), files++);
}

}  // namespace

EventFileWriter::EventFileWriter(const std::string& directory, const Clock* clock)
    : clock_(clock), directory_(directory), path_(NewPath(directory, *clock)) {}

absl::Status EventFileWriter::Begin() {
  if (file_ == nullptr) {
    COHORT_RETURN_IF_ERROR(MakeDirectories(directory_));
    COHORT_ASSIGN_OR_RETURN(file_, AppendFile::Open(path_));
  }
  if (size_ > 0) return absl::OkStatus();
  return WriteRecord(Encode([&](CodedOutputStream* out) {
    WireFormatLite::WriteDouble(1, static_cast<double>(clock_->UnixMicros()) / 1e6, out);
    WireFormatLite::WriteString(3, "brain.Event:2", out);
  }));
}

absl::Status EventFileWriter::Add(int64_t step, const Scalars& scalars) {
  std::vector<std::string> values;
  for (const auto& [tag, value] : scalars) values.push_back(EncodeValue(tag, value));
  return AddValues(step, values);
}

absl::Status EventFileWriter::AddValues(int64_t step, const std::vector<std::string>& values) {
  const std::string summary = Encode([&](CodedOutputStream* out) {
    for (const std::string& value : values) WireFormatLite::WriteBytes(1, value, out);
  });
  return AddField(step, 5, summary);
}

absl::Status EventFileWriter::AddGraph(const std::string& graph_def) {
  return AddField(0, 4, graph_def);
}

absl::Status EventFileWriter::AddField(int64_t step, int field, const std::string& bytes) {
  COHORT_RETURN_IF_ERROR(Begin());
  return WriteRecord(Encode([&](CodedOutputStream* out) {
    WireFormatLite::WriteDouble(1, static_cast<double>(clock_->UnixMicros()) / 1e6, out);
    WireFormatLite::WriteInt64(2, step, out);
    WireFormatLite::WriteBytes(field, bytes, out);
  }));
}

absl::Status EventFileWriter::WriteRecord(std::string_view event) {
  std::string record;
  AppendFixed32(static_cast<uint32_t>(event.size()), &record);
  AppendFixed32(static_cast<uint32_t>(static_cast<uint64_t>(event.size()) >> 32), &record);
  AppendFixed32(MaskedCrc32c(record), &record);
  record.append(event);
  AppendFixed32(MaskedCrc32c(event), &record);
  const absl::Status status = file_->Append(record);
  if (status.ok()) {
    size_ += static_cast<int64_t>(record.size());
  } else {
    file_->Truncate(size_);  // a reader would stop at a torn record
  }
  return status;
}

}  // namespace cohort
