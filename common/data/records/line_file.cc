#include "common/data/records/line_file.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/files/compression.h"

namespace cohort {
namespace {

constexpr size_t kScanBytes = 1 << 20;
constexpr uint64_t kMaxLineBytes = 1 << 30;
constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";

}  // namespace

absl::StatusOr<LineFile> LineFile::Open(const InputFile& file, const DataOptions& options,
                                        char comment) {
  COHORT_ASSIGN_OR_RETURN(FileBytes raw, FileBytes::Open(file, options));
  COHORT_ASSIGN_OR_RETURN(FileBytes bytes, InflateIfPacked(std::move(raw), options.log));
  LineFile lines(std::move(bytes));
  COHORT_RETURN_IF_ERROR(lines.FindLines(comment));
  return lines;
}

absl::Status LineFile::FindLines(char comment) {
  std::string block;
  uint64_t line = 1;
  uint64_t start = 0;     // where the current line begins
  bool undecided = true;  // only blanks so far
  for (uint64_t at = 0; at < file_.size(); at += block.size()) {
    block.resize(std::min<uint64_t>(kScanBytes, file_.size() - at));
    COHORT_RETURN_IF_ERROR(file_.Read(at, std::as_writable_bytes(std::span<char>(block))));
    size_t from = 0;
    if (at == 0) {
      if (block.starts_with("\xff\xfe") || block.starts_with("\xfe\xff")) {
        return DataLoss("{}: is UTF-16: save the file as UTF-8", PrintableLine(file_.path()));
      }
      if (block.starts_with(kUtf8Mark)) start = from = kUtf8Mark.size();
    }
    while (from < block.size()) {
      if (undecided) {
        from = std::min(block.find_first_not_of(kBlanks, from), block.size());
        if (from == block.size()) break;
        if (block[from] != '\n') {
          undecided = false;
          if (comment == '\0' || block[from] != comment) AddLine(start, line);
        }
      }
      const auto* const end =
          static_cast<const char*>(std::memchr(block.data() + from, '\n', block.size() - from));
      if (end == nullptr) break;
      from = static_cast<size_t>(end - block.data()) + 1;
      start = at + from;
      ++line;
      undecided = true;
    }
  }
  return absl::OkStatus();
}

void LineFile::AddLine(uint64_t offset, uint64_t line) {
  lines_.Add(line);
  offsets_.push_back(offset);
}

std::string LineFile::Place(uint64_t record) const {
  return fmt::format("{}: line {}", PrintableLine(file_.path()), lines_.LineOf(record));
}

absl::Status LineFile::Read(uint64_t record, std::string* line) const {
  const uint64_t begin = offsets_[record];
  const uint64_t end = EndOf(record);
  if (end - begin > kMaxLineBytes) {
    return DataLoss("has more than {} bytes up to the next record", kMaxLineBytes);
  }
  line->resize(end - begin);
  COHORT_RETURN_IF_ERROR(file_.Read(begin, std::as_writable_bytes(std::span<char>(*line))));
  line->resize(std::min(line->find('\n'), line->size()));
  if (line->ends_with('\r')) line->pop_back();
  return absl::OkStatus();
}

}  // namespace cohort
