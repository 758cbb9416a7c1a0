#include "common/data/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/stable_bytes.h"
#include "common/data/files/remote_file.h"
#include "common/data/source_class.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

bool AreSame(const v1::FileFingerprint& a, const v1::FileFingerprint& b) {
  return a.path() == b.path() && a.bytes() == b.bytes() && a.crc32() == b.crc32();
}

std::string Contents(const ReadData& read, int file) {
  const v1::FileFingerprint& of = read.data.files(file);
  return fmt::format("{} bytes, crc32 {:08x} {}", of.bytes(), of.crc32(), read.where);
}

// The next signature of an address names the same file.
void DropSecrets(v1::ConfigValue* value) {
  if (value->has_s()) value->set_s(PublicPath(value->s()));
  if (!value->has_list()) return;
  for (v1::ConfigValue& item : *value->mutable_list()->mutable_values()) DropSecrets(&item);
}

}  // namespace

v1::DatasetSpec BatchDefiningPart(const v1::DatasetSpec& spec) {
  v1::DatasetSpec read = spec;
  read.clear_prefetch();
  read.clear_reads();
  for (auto& [name, value] : *read.mutable_source_class()->mutable_config()) DropSecrets(&value);
  const auto source = Sources().Find(read.source_class().class_name());
  if (!source.ok()) return read;
  for (const std::string& argument : (*source)->no_record_arguments) {
    read.mutable_source_class()->mutable_config()->erase(argument);
  }
  return read;
}

bool ReadTheSame(const v1::DatasetSpec& a, const v1::DatasetSpec& b) {
  v1::DatasetSpec of_a = BatchDefiningPart(a);
  v1::DatasetSpec of_b = BatchDefiningPart(b);
  of_a.clear_transforms();
  of_b.clear_transforms();
  return StableBytes(of_a) == StableBytes(of_b);
}

v1::FileFingerprint MakeFileFingerprint(const std::string& path, uint64_t bytes, uint32_t crc32) {
  v1::FileFingerprint file;
  file.set_path(PublicPath(path));
  file.set_bytes(bytes);
  file.set_crc32(crc32);
  return file;
}

std::string DifferenceOf(const ReadData& a, const ReadData& b) {
  std::string differences;
  const int files = std::min(a.data.files_size(), b.data.files_size());
  for (int i = 0; i < files; ++i) {
    if (AreSame(a.data.files(i), b.data.files(i))) continue;
    differences += fmt::format("{}{} has other contents ({}; {})", differences.empty() ? "" : ", ",
                               a.data.files(i).path(), Contents(a, i), Contents(b, i));
  }
  if (differences.empty() && a.data.source() != b.data.source()) {
    differences = fmt::format("the source has other records (\"{}\" {}; \"{}\" {})",
                              a.data.source(), a.where, b.data.source(), b.where);
  }
  if (differences.empty() && a.data.records() == b.data.records() &&
      a.data.files_size() == b.data.files_size()) {
    return "";
  }
  if (differences.empty()) differences = "the data differ";
  return fmt::format("{}: {} records {}, {} {}", differences, a.data.records(), a.where,
                     b.data.records(), b.where);
}

}  // namespace cohort
