#include <nlohmann/json.hpp>
#include <set>

#include "common/base/status.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/safetensors_format.h"

namespace cohort {
namespace {

// The header with its length, as it stands in the file; `data_bytes` receives the size of the data.
absl::StatusOr<std::string> MakeHeader(const std::vector<SafetensorsWriter::Entry>& entries,
                                       const SafetensorsWriter::Metadata& metadata,
                                       uint64_t* data_bytes) {
  // Keys stay in the order of the data: readable, and readers need not sort.
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[safetensors::kMetadataKey] = metadata;
  std::set<std::string> names = {safetensors::kMetadataKey};
  uint64_t offset = 0;
  for (const SafetensorsWriter::Entry& entry : entries) {
    const std::string_view dtype = safetensors::NameOf(entry.dtype);
    if (dtype.empty()) return InvalidArgument("tensor \"{}\": it has no dtype", entry.name);
    if (!names.insert(entry.name).second) {
      return InvalidArgument("tensor \"{}\": the name is taken in this file", entry.name);
    }
    const auto bytes = safetensors::BytesOf(entry.dtype, entry.dims);
    if (!bytes.has_value()) {
      return InvalidArgument("tensor \"{}\": {} is no shape", entry.name, DimsToString(entry.dims));
    }
    header[entry.name] = {
        {"dtype", dtype}, {"shape", entry.dims}, {"data_offsets", {offset, offset + *bytes}}};
    offset += *bytes;
  }
  *data_bytes = offset;
  std::string json;
  try {
    json = header.dump();
  } catch (const std::exception& e) {  // a name or a metadata text that is not UTF-8
    return InvalidArgument("cannot write the names as JSON: {}", e.what());
  }
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string framed(safetensors::kLengthBytes, '\0');
  for (size_t i = 0; i < safetensors::kLengthBytes; ++i) {
    framed[i] = static_cast<char>(json.size() >> (8 * i));
  }
  return framed + json;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, const std::vector<Entry>& entries, const Metadata& metadata) {
  uint64_t data_bytes = 0;
  auto header = MakeHeader(entries, metadata, &data_bytes);
  if (!header.ok()) return Annotate(header.status(), path);
  COHORT_ASSIGN_OR_RETURN(auto file, DurableFile::Create(path, DurableFile::Mode::kReplace));
  std::unique_ptr<SafetensorsWriter> writer(
      new SafetensorsWriter(std::move(file), header->size() + data_bytes));
  COHORT_RETURN_IF_ERROR(writer->Append(header->data(), header->size()));
  return writer;
}

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<DurableFile> file, uint64_t data_bytes)
    : file_(std::move(file)), missing_(data_bytes) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (finished_) return;
  file_->Close().IgnoreError();
  RemoveFile(file_->path()).IgnoreError();
}

absl::Status SafetensorsWriter::Append(const void* data, size_t bytes) {
  if (bytes > missing_) {
    return OutOfRange("{}: {} bytes more than its tensors have", file_->path(), bytes - missing_);
  }
  COHORT_RETURN_IF_ERROR(file_->Append(data, bytes));
  crc_ = Crc32(crc_, data, bytes);
  missing_ -= bytes;
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsWriter::Result> SafetensorsWriter::Finish(
    const std::function<void(uint64_t bytes)>& progress) {
  if (missing_ > 0) {
    return FailedPrecondition("{}: {} bytes of its tensors were not written", file_->path(),
                              missing_);
  }
  COHORT_RETURN_IF_ERROR(file_->Sync(progress));
  COHORT_RETURN_IF_ERROR(file_->Close());
  finished_ = true;
  return Result{file_->bytes(), crc_};
}

}  // namespace cohort
