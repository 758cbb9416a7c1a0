#include "common/base/crc32c.h"
#include "common/data/records/example_columns.h"
#include "common/data/records/tf_record_file.h"
#include "proto/tf_example.pb.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort::fuzz {
namespace {

ExampleColumns Columns() {
  const auto complete = [](std::string_view kind, v1::ConfigValue shape) {
    const bool is_image = kind == "image";
    return *CompleteConfig(FeatureKinds(),
                           ClassOf(kind, {{is_image ? "image_size" : "shape", std::move(shape)}}));
  };
  return *ExampleColumns::Create(
      {{"box", complete("tensor", ConfigOf(std::vector<int64_t>{2}))},
       {"image", complete("image", ConfigOf(std::vector<int64_t>{8, 12}))}});
}

// As a file, and as one record whose checksums fit.
absl::Status DecodeTfRecord(std::string_view bytes) {
  static const ExampleColumns columns = Columns();
  const absl::Status example = columns.Check(bytes);
  const auto file = TfRecordFile::Open({FileOf(bytes), "", ""}, {}, nullptr);
  if (!file.ok()) return example.ok() ? example : file.status();
  std::string piece;
  for (uint64_t i = 0; i < file->records(); ++i) {
    const auto read = file->Read(i, &piece);
    const absl::Status checked = read.ok() ? columns.Check(*read) : read.status();
    if (!checked.ok()) return checked;
  }
  return absl::OkStatus();
}

std::vector<std::string> TfRecordSeeds() {
  v1::TfExample example;
  const auto add = [&](const char* name) {
    v1::TfFeatureEntry* const entry = example.mutable_features()->add_feature();
    entry->set_name(name);
    return entry->mutable_value();
  };
  add("image")->mutable_bytes_list()->add_value(ImageTarget().seeds().front());
  v1::TfFloatList* const box = add("box")->mutable_float_list();
  box->add_value(0.5F);
  box->add_value(2);
  const std::string record = example.SerializeAsString();
  std::string length(8, '\0');
  for (size_t i = 0; i < 4; ++i) length[i] = static_cast<char>(record.size() >> (8 * i));
  const auto checksum = [](std::string_view text) {
    const uint32_t crc = MaskedCrc32c(text);
    return std::string(reinterpret_cast<const char*>(&crc), sizeof(crc));
  };
  return {record, length + checksum(length) + record + checksum(record)};
}

}  // namespace

FuzzTarget TfRecordTarget() { return {"tf_record", DecodeTfRecord, TfRecordSeeds}; }

}  // namespace cohort::fuzz
