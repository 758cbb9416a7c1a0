#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/status.h"
#include "common/data/files/contents.h"
#include "common/data/files/remote_file.h"
#include "common/data/fingerprint.h"
#include "common/data/source_class.h"
#include "common/data/sources/decoders.h"

namespace cohort {
namespace {

// The element types of the format, and the dtypes that they become.
struct IdxType {
  uint8_t code;
  size_t bytes;
  DType dtype;
};
constexpr IdxType kTypes[] = {
    {0x08, 1, DType::kUint8}, {0x09, 1, DType::kInt32},   {0x0B, 2, DType::kInt32},
    {0x0C, 4, DType::kInt32}, {0x0D, 4, DType::kFloat32}, {0x0E, 8, DType::kFloat64},
};

uint64_t ReadBigEndian(const char* at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint8_t>(at[i]);
  return value;
}

// Converts one element to the host's order; signed ones narrower than int32 are widened.
void StoreElement(const IdxType& type, const char* at, uint8_t* out) {
  uint64_t value = ReadBigEndian(at, type.bytes);
  if (type.code == 0x09) value = static_cast<uint32_t>(static_cast<int8_t>(value));
  if (type.code == 0x0B) value = static_cast<uint32_t>(static_cast<int16_t>(value));
  if (SizeOf(type.dtype) == 8) {
    std::memcpy(out, &value, 8);
  } else {
    const auto narrow = static_cast<uint32_t>(value);
    std::memcpy(out, &narrow, 4);
  }
}

// Narrows an array to a range of its records (axis 0) and makes a column of it.
Column MakeColumn(IdxArray array, const RowRange& range, std::string name) {
  Column column;
  column.name = std::move(name);
  column.dims.assign(array.dims.begin() + 1, array.dims.end());
  column.stored = array.dtype;
  column.dtype = array.dtype;
  const size_t row = static_cast<size_t>(column.elements()) * SizeOf(array.dtype);
  auto& values = array.values;
  std::memmove(values.data(), values.data() + range.skip * row, range.take * row);
  values.resize(range.take * row);
  column.values = std::make_shared<const TableVector<uint8_t>>(std::move(values));
  return column;
}

}  // namespace

absl::StatusOr<IdxArray> ParseIdx(std::string_view bytes, std::string_view name) {
  if (bytes.size() < 4)
    return DataLoss("{}: has {} bytes, too few for an IDX header", name, bytes.size());
  if (bytes[0] != 0 || bytes[1] != 0) {
    return DataLoss("{}: starts with bytes {:02x} {:02x}; an IDX file starts with 00 00", name,
                    static_cast<uint8_t>(bytes[0]), static_cast<uint8_t>(bytes[1]));
  }
  const auto type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const IdxType& t) {
    return t.code == static_cast<uint8_t>(bytes[2]);
  });
  if (type == std::end(kTypes)) {
    return DataLoss("{}: byte 2: {:#04x} is not an IDX element type", name,
                    static_cast<uint8_t>(bytes[2]));
  }
  const size_t rank = static_cast<uint8_t>(bytes[3]);
  const size_t header = 4 + 4 * rank;
  if (rank == 0)
    return DataLoss("{}: byte 3: an IDX file of records has at least one dimension", name);
  if (bytes.size() < header) {
    return DataLoss("{}: ends at byte {}, within the header of {} dimensions", name, bytes.size(),
                    rank);
  }
  IdxArray array;
  array.dtype = type->dtype;
  const uint64_t available = (bytes.size() - header) / type->bytes;
  uint64_t elements = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    const uint64_t size = ReadBigEndian(bytes.data() + 4 + 4 * axis, 4);
    if (size == 0) return DataLoss("{}: byte {}: dimension {} is 0", name, 4 + 4 * axis, axis);
    // If the product would overflow, it is enough to know that no file can be that large.
    elements = elements > available / size ? available + 1 : elements * size;
    array.dims.push_back(static_cast<int64_t>(size));
  }
  if (elements != available || (bytes.size() - header) % type->bytes != 0) {
    return DataLoss("{}: {} elements of {} bytes are expected after byte {}, but {} bytes follow",
                    name, DimsToString(array.dims), type->bytes, header, bytes.size() - header);
  }
  const char* data = bytes.data() + header;
  if (type->dtype == DType::kUint8) {
    array.values.assign(reinterpret_cast<const uint8_t*>(data), elements);
    return array;
  }
  const size_t stride = SizeOf(type->dtype);
  array.values.resize(elements * stride);
  for (uint64_t i = 0; i < elements; ++i) {
    StoreElement(*type, data + i * type->bytes, array.values.data() + i * stride);
  }
  return array;
}

namespace {

// Reads the file that the argument `file` names, and adds it to `files`.
absl::StatusOr<IdxArray> ReadIdxArray(const Config& config, const std::string& file,
                                      const DataOptions& options,
                                      std::vector<v1::FileFingerprint>* files) {
  const std::string& path = config.String(file);
  uint32_t crc32 = 0;
  COHORT_ASSIGN_OR_RETURN(
      const FileBytes opened,
      OpenContents({path, config.String("url"), config.String("sha256_" + file)}, options));
  COHORT_ASSIGN_OR_RETURN(const TableVector<uint8_t> bytes, ReadContents(opened, &crc32));
  files->push_back(MakeFileFingerprint(path, bytes.size(), crc32));
  return ParseIdx({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, PublicPath(path));
}

absl::StatusOr<Table> ReadIdxTable(const Config& config, const SourceContext& context,
                                   const TableRequest& request) {
  Table table;
  COHORT_ASSIGN_OR_RETURN(IdxArray images,
                          ReadIdxArray(config, "images", context.options, &table.files));
  table.records = static_cast<uint64_t>(images.dims[0]);
  COHORT_ASSIGN_OR_RETURN(const RowRange rows, ClampRange(request.range, table.records));
  table.columns.push_back(MakeColumn(std::move(images), rows, "image"));
  if (!config.String("labels").empty()) {
    COHORT_ASSIGN_OR_RETURN(IdxArray labels,
                            ReadIdxArray(config, "labels", context.options, &table.files));
    if (static_cast<uint64_t>(labels.dims[0]) != table.records) {
      return InvalidArgument("{} has {} records, {} has {}", PublicPath(config.String("images")),
                             table.records, PublicPath(config.String("labels")), labels.dims[0]);
    }
    table.columns.push_back(MakeColumn(std::move(labels), rows, "label"));
    // Class numbers, the input of sparse losses and metrics.
    if (!IsFloating(table.columns.back().stored)) table.columns.back().dtype = DType::kInt64;
  }
  table.records = rows.take;
  table.place = [images = PublicPath(config.String("images")),
                 labels = PublicPath(config.String("labels")),
                 skip = rows.skip](uint64_t record, std::string_view column) {
    return fmt::format("{}: record {}", column == "label" ? labels : images, skip + record);
  };
  return table;
}

}  // namespace

SourceClass IdxSource() {
  return {
      .schema =
          {.name = "idx",
           .doc = "Files in the format of MNIST, read when the data is opened: columns `image` and "
                  "`label`.",
           .arguments = {String("images",
                                "A file below `COHORT_DATA_DIR`, or absolute; may be "
                                "packed with gzip."),
                         String("labels", "The same for the labels.").Optional(),
                         String("url", "Shown in the error if a file is missing.").Optional(),
                         String("sha256_images", "Hexadecimal; checked if given.").Optional(),
                         String("sha256_labels", "Hexadecimal; checked if given.").Optional()}},
      .no_record_arguments = {"url", "sha256_images", "sha256_labels"},
      .read_table = ReadIdxTable};
}

}  // namespace cohort
