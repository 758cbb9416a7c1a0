#include <zip.h>

#include "common/data/arrays/npy_array.h"
#include "common/data/arrays/zip_file.h"
#include "common/data/file_bytes.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort::fuzz {
namespace {

absl::Status ReadRows(const absl::StatusOr<NpyArray>& array) {
  if (!array.ok()) return array.status();
  const int64_t bytes = NumElements(array->dims()) * static_cast<int64_t>(SizeOf(array->dtype()));
  std::vector<std::byte> row(static_cast<size_t>(bytes));
  return array->rows() == 0 ? absl::OkStatus() : array->ReadRow(array->rows() - 1, row);
}

absl::Status DecodeNpy(std::string_view bytes) {
  return ReadRows(NpyArray::Parse(std::string(bytes), "file"));
}

absl::Status DecodeNpz(std::string_view bytes) {
  const auto file = FileBytes::Open({FileOf(bytes), "", ""}, {});
  if (!file.ok()) return file.status();
  const auto zip = ZipFile::Open(*file);
  if (!zip.ok()) return zip.status();
  for (const ZipMember& member : (*zip)->members()) {
    auto contents = (*zip)->Read(member);
    if (!contents.ok()) return contents.status();
    const absl::Status read = ReadRows(NpyArray::Parse(*std::move(contents), "member"));
    if (!read.ok()) return read;
  }
  return absl::OkStatus();
}

std::string Npy(std::string_view type, std::string_view data) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (2, 3), }}\n", type);
  return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0' + header +
         std::string(data);
}

std::vector<std::string> NpySeeds() {
  return {Npy("|u1", "abcdef"), Npy(">f2", "abcdefghijkl"), Npy("<i8", std::string(48, 'x'))};
}

std::vector<std::string> NpzSeeds() {
  const std::vector<std::string> arrays = NpySeeds();
  zip_error_t error;
  zip_source_t* const buffer = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_source_keep(buffer);
  zip_t* const zip = zip_open_from_source(buffer, ZIP_TRUNCATE, &error);
  for (size_t i = 0; i < arrays.size(); ++i) {
    zip_source_t* const source = zip_source_buffer(zip, arrays[i].data(), arrays[i].size(), 0);
    const auto at = zip_file_add(zip, fmt::format("{}.npy", i).c_str(), source, 0);
    zip_set_file_compression(zip, static_cast<zip_uint64_t>(at),
                             i == 0 ? ZIP_CM_STORE : ZIP_CM_DEFLATE, 0);
  }
  zip_close(zip);
  std::string bytes(4096, '\0');
  zip_source_open(buffer);
  bytes.resize(static_cast<size_t>(zip_source_read(buffer, bytes.data(), bytes.size())));
  zip_source_close(buffer);
  zip_source_free(buffer);
  return {bytes};
}

}  // namespace

FuzzTarget NpyTarget() { return {"npy", DecodeNpy, NpySeeds}; }
FuzzTarget NpzTarget() { return {"npz", DecodeNpz, NpzSeeds}; }

}  // namespace cohort::fuzz
