#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/json_text.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/safetensors_format.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostAxes = 32;
constexpr size_t kShownBytes = 200;  // errors show the beginning of a name

// Reads and parses the header; `data_begin` receives where the data starts.
absl::StatusOr<Json> ReadHeader(const RandomFile& file, uint64_t* data_begin) {
  if (file.size() < safetensors::kLengthBytes) {
    return DataLoss("{}: has {} bytes, no room for the length of a header", file.path(),
                    file.size());
  }
  uint8_t raw[safetensors::kLengthBytes];
  COHORT_RETURN_IF_ERROR(file.Read(0, raw, sizeof(raw)));
  uint64_t length = 0;
  for (size_t i = 0; i < sizeof(raw); ++i) length |= uint64_t{raw[i]} << (8 * i);
  if (length > safetensors::kMaxHeaderBytes || length > file.size() - sizeof(raw)) {
    return DataLoss("{}: says its header has {} bytes, but the file has {}", file.path(), length,
                    file.size());
  }
  std::string text(length, '\0');
  COHORT_RETURN_IF_ERROR(file.Read(sizeof(raw), text.data(), text.size()));
  auto header = ParseJsonText(text);
  if (!header.ok()) {
    return DataLoss("{}: its header is {}", file.path(), std::string(header.status().message()));
  }
  if (!header->is_object()) return DataLoss("{}: its header is not a JSON object", file.path());
  *data_begin = sizeof(raw) + length;
  return header;
}

// A JSON number that is an integer in [0, 2^63).
bool IsSize(const Json& value) {
  return value.is_number_unsigned() &&
         value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
}

bool IsSizeArray(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), IsSize);
}

// Checks one entry of the header against the size of the data. `offset` of the result counts from
// the start of the data.
absl::StatusOr<TensorInfo> ParseEntry(const std::string& name, const Json& entry,
                                      uint64_t data_bytes) {
  const std::string shown = PrintableLine(name.substr(0, kShownBytes));
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    return DataLoss("tensor \"{}\" has other keys than dtype, shape and data_offsets", shown);
  }
  TensorInfo info;
  info.name = name;
  const Json& dtype = entry["dtype"];
  if (dtype.is_string()) info.dtype = safetensors::DTypeOfName(dtype.get_ref<const std::string&>());
  if (info.dtype == DType::kInvalid) {
    return DataLoss("tensor \"{}\" has the unknown dtype {}", shown, ShortText(dtype));
  }
  if (!IsSizeArray(entry["shape"]))
    return DataLoss("tensor \"{}\" has a shape that is none", shown);
  if (entry["shape"].size() > kMostAxes) {
    return DataLoss("tensor \"{}\" has {} axes, at most {} are read", shown, entry["shape"].size(),
                    kMostAxes);
  }
  info.dims = entry["shape"].get<Dims>();
  const Json& offsets = entry["data_offsets"];
  if (!IsSizeArray(offsets) || offsets.size() != 2) {
    return DataLoss("tensor \"{}\" has data_offsets that are not two numbers", shown);
  }
  const auto begin = offsets[0].get<uint64_t>();
  const auto end = offsets[1].get<uint64_t>();
  if (begin > end || end > data_bytes) {
    return DataLoss("tensor \"{}\" lies at [{}, {}) of {} bytes of data", shown, begin, end,
                    data_bytes);
  }
  const auto bytes = safetensors::BytesOf(info.dtype, info.dims);
  if (!bytes.has_value() || *bytes != end - begin) {
    return DataLoss("tensor \"{}\" of shape {} and dtype {} does not have the {} bytes it lies at",
                    shown, DimsToString(info.dims), DTypeName(info.dtype), end - begin);
  }
  info.offset = begin;
  info.bytes = *bytes;
  return info;
}

absl::Status ParseMetadata(const Json& entry, std::map<std::string, std::string>* metadata) {
  if (!entry.is_object()) return DataLoss("__metadata__ is not an object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string())
      return DataLoss("__metadata__ \"{}\" is not a text",
                      PrintableLine(key.substr(0, kShownBytes)));
    (*metadata)[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

// The tensors must fill the data: no holes, no overlaps, nothing after them.
absl::Status CheckContiguous(const std::vector<TensorInfo>& tensors, uint64_t data_bytes) {
  uint64_t at = 0;
  for (const TensorInfo& info : tensors) {
    if (info.offset != at) {
      return DataLoss("tensor \"{}\" starts at byte {} of the data, the one before ends at {}",
                      PrintableLine(info.name.substr(0, kShownBytes)), info.offset, at);
    }
    at += info.bytes;
  }
  if (at != data_bytes) {
    return DataLoss("its tensors end at byte {} of {} bytes of data", at, data_bytes);
  }
  return absl::OkStatus();
}

absl::Status ParseHeader(const Json& header, uint64_t data_bytes, std::vector<TensorInfo>* tensors,
                         std::map<std::string, std::string>* metadata) {
  for (const auto& [name, entry] : header.items()) {
    if (name == safetensors::kMetadataKey) {
      COHORT_RETURN_IF_ERROR(ParseMetadata(entry, metadata));
      continue;
    }
    COHORT_ASSIGN_OR_RETURN(TensorInfo info, ParseEntry(name, entry, data_bytes));
    tensors->push_back(std::move(info));
  }
  std::sort(tensors->begin(), tensors->end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  return CheckContiguous(*tensors, data_bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::Open(
    const std::string& path) {
  COHORT_ASSIGN_OR_RETURN(auto file, RandomFile::Open(path));
  uint64_t data_begin = 0;
  COHORT_ASSIGN_OR_RETURN(const Json header, ReadHeader(*file, &data_begin));
  std::unique_ptr<SafetensorsReader> reader(new SafetensorsReader(std::move(file)));
  const absl::Status parsed =
      ParseHeader(header, reader->file_bytes() - data_begin, &reader->tensors_, &reader->metadata_);
  if (!parsed.ok()) return Annotate(parsed, path);
  for (size_t i = 0; i < reader->tensors_.size(); ++i) {
    reader->tensors_[i].offset += data_begin;
    reader->by_name_[reader->tensors_[i].name] = i;
  }
  return reader;
}

const TensorInfo* SafetensorsReader::Find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

absl::Status SafetensorsReader::ReadBytes(const TensorInfo& info, uint64_t begin, uint64_t count,
                                          void* out) const {
  if (begin > info.bytes || count > info.bytes - begin) {
    return OutOfRange("{}: bytes [{}, +{}) of tensor \"{}\", which has {}", path(), begin, count,
                      info.name, info.bytes);
  }
  return file_->Read(info.offset + begin, out, count);
}

absl::Status VerifyFile(const std::string& path, uint64_t bytes, uint32_t crc32) {
  COHORT_ASSIGN_OR_RETURN(auto file, RandomFile::Open(path));
  if (file->size() != bytes) {
    return DataLoss("{}: has {} bytes, the manifest says {}", path, file->size(), bytes);
  }
  constexpr size_t kBlock = size_t{1} << 20;
  std::vector<uint8_t> block(std::min<uint64_t>(kBlock, bytes));
  uint32_t crc = 0;
  for (uint64_t at = 0; at < bytes; at += block.size()) {
    const size_t n = std::min<uint64_t>(block.size(), bytes - at);
    COHORT_RETURN_IF_ERROR(file->Read(at, block.data(), n));
    crc = Crc32(crc, block.data(), n);
  }
  if (crc != crc32) {
    return DataLoss("{}: has checksum {:08x}, the manifest says {:08x}", path, crc, crc32);
  }
  return absl::OkStatus();
}

}  // namespace cohort
