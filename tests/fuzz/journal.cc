#include "common/checkpoint/file.h"
#include "common/checkpoint/journal_format.h"
#include "proto/checkpoint.pb.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort::fuzz {
namespace {

// As they are, and as the body of a record whose length and checksum fit.
absl::Status DecodeJournal(std::string_view bytes) {
  const absl::Status whole = ParseJournal(bytes, "file", nullptr).status();
  std::string framed;
  for (const uint32_t number :
       {static_cast<uint32_t>(bytes.size()), Crc32(0, bytes.data(), bytes.size())}) {
    for (int i = 0; i < 4; ++i) framed.push_back(static_cast<char>(number >> (8 * i)));
  }
  const absl::Status one = ParseJournal(framed.append(bytes), "file", nullptr).status();
  return one.ok() ? one : whole;
}

std::vector<std::string> JournalSeeds() {
  v1::JournalRecord start, settle;
  start.set_number(1);
  start.mutable_start()->set_format_version(1);
  settle.set_number(2);
  settle.mutable_settle()->set_watermark(10);
  settle.mutable_settle()->add_metrics()->set_name("loss");
  std::string journal;
  for (const auto& record : {start, settle}) {
    if (!AppendJournalFrame(record, &journal).ok()) return {};
  }
  return {journal, start.SerializeAsString(), settle.SerializeAsString()};
}

}  // namespace

FuzzTarget JournalTarget() { return {"journal", DecodeJournal, JournalSeeds}; }

}  // namespace cohort::fuzz
