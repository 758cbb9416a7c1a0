#include "common/data/csv_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool IsBlank(char c, char delimiter) { return (c == ' ' || c == '\t') && c != delimiter; }

// Drops blanks around a number, and its plus sign.
std::string_view NumberIn(std::string_view field) {
  constexpr std::string_view kBlanks = " \t";
  field.remove_prefix(std::min(field.find_first_not_of(kBlanks), field.size()));
  field = field.substr(0, field.find_last_not_of(kBlanks) + 1);
  if (field.size() > 1 && field[0] == '+' && field[1] != '-') field.remove_prefix(1);
  return field;
}

}  // namespace

CsvReader::CsvReader(std::string_view text, char delimiter, std::string_view name)
    : text_(text), delimiter_(delimiter), name_(name) {
  SkipByteOrderMark();
}

CsvReader::CsvReader(More more, char delimiter, std::string_view name)
    : more_(std::move(more)), is_all_(false), delimiter_(delimiter), name_(name) {}

void CsvReader::SkipByteOrderMark() {
  if (text_.substr(0, kByteOrderMark.size()) == kByteOrderMark) at_ = kByteOrderMark.size();
}

absl::Status CsvReader::CheckLineEnds() const {
  // A CR within quotes would be text.
  if (text_.find_first_of("\n\"") == text_.npos && text_.find('\r') < text_.size() - 1) {
    return DataLoss("{}: the lines end with CR alone: save the file with LF or CR LF", name_);
  }
  return absl::OkStatus();
}

// Drops the records that were read from the window, and reads more.
absl::Status CsvReader::Refill() {
  const bool is_first = window_.empty() && line_ == 1;
  window_.erase(0, at_);
  dropped_ += at_;
  at_ = 0;
  const size_t before = window_.size();
  COHORT_RETURN_IF_ERROR(more_(&window_));
  is_all_ = window_.size() == before;
  text_ = window_;
  if (!is_first) return absl::OkStatus();
  SkipByteOrderMark();
  return CheckLineEnds();
}

absl::StatusOr<bool> CsvReader::Next() {
  if (!is_checked_) {
    is_checked_ = true;
    COHORT_RETURN_IF_ERROR(is_all_ ? CheckLineEnds() : Refill());
  }
  while (true) {
    const size_t at = at_;
    const uint64_t line = line_;
    absl::StatusOr<bool> more = NextHere();
    // At the end of the window a record may have more text than it seems.
    if (is_all_ || at_ < text_.size()) return more;
    at_ = at;
    line_ = line;
    COHORT_RETURN_IF_ERROR(Refill());
  }
}

bool CsvReader::AtLineEnd() const {
  return at_ == text_.size() || text_[at_] == '\n' ||
         (text_[at_] == '\r' && (at_ + 1 == text_.size() || text_[at_ + 1] == '\n'));
}

void CsvReader::SkipBlanks() {
  while (at_ < text_.size() && IsBlank(text_[at_], delimiter_)) ++at_;
}

void CsvReader::SkipLineEnd() {
  if (at_ < text_.size() && text_[at_] == '\r') ++at_;
  if (at_ < text_.size() && text_[at_] == '\n') {
    ++at_;
    ++line_;
  }
}

absl::StatusOr<bool> CsvReader::NextHere() {
  fields_.clear();
  unquoted_used_ = 0;
  while (true) {
    SkipBlanks();
    if (at_ == text_.size()) return false;
    if (!AtLineEnd()) break;
    SkipLineEnd();
  }
  record_line_ = line_;
  while (true) {
    COHORT_RETURN_IF_ERROR(ReadField());
    if (AtLineEnd()) break;
    ++at_;  // the delimiter
  }
  SkipLineEnd();
  return true;
}

absl::Status CsvReader::ReadField() {
  SkipBlanks();
  if (at_ < text_.size() && text_[at_] == '"') {
    COHORT_RETURN_IF_ERROR(ReadQuoted());
    SkipBlanks();
    if (!AtLineEnd() && text_[at_] != delimiter_) {
      return DataLoss("{}: line {}: field {} continues after its closing quote", name_, line_,
                      fields_.size());
    }
    return absl::OkStatus();
  }
  if (ReadPlain()) return absl::OkStatus();
  return DataLoss("{}: line {}: field {} has a NUL byte: this is not text", name_, line_,
                  fields_.size());
}

bool CsvReader::ReadPlain() {
  const size_t begin = at_;
  const char delimiter = delimiter_;
  bool is_text = true;
  for (; at_ < text_.size() && text_[at_] != delimiter; ++at_) {
    // Most characters are above those that matter.
    if (static_cast<uint8_t>(text_[at_]) > '\r') continue;
    if (AtLineEnd()) break;
    is_text = is_text && text_[at_] != '\0';
  }
  size_t end = at_;
  while (end > begin && IsBlank(text_[end - 1], delimiter)) --end;
  fields_.push_back(text_.substr(begin, end - begin));
  return is_text;
}

absl::Status CsvReader::ReadQuoted() {
  const uint64_t opened = line_;
  const size_t begin = ++at_;
  bool doubled = false;
  while (true) {
    if (at_ == text_.size()) {
      return DataLoss("{}: line {}: the quote that opens field {} is never closed", name_, opened,
                      fields_.size() + 1);
    }
    const char c = text_[at_];
    if (c == '"') {
      if (at_ + 1 == text_.size() || text_[at_ + 1] != '"') break;
      doubled = true;
      ++at_;
    }
    if (c == '\n') ++line_;
    ++at_;
  }
  const std::string_view raw = text_.substr(begin, at_ - begin);
  ++at_;  // the closing quote
  if (raw.find('\0') != std::string_view::npos) {
    return DataLoss("{}: line {}: field {} has a NUL byte: this is not text", name_, opened,
                    fields_.size() + 1);
  }
  if (!doubled) {
    fields_.push_back(raw);
    return absl::OkStatus();
  }
  std::string text;
  for (size_t i = 0; i < raw.size(); ++i) {
    text.push_back(raw[i]);
    if (raw[i] == '"') ++i;
  }
  if (unquoted_used_ == unquoted_.size()) unquoted_.emplace_back();
  unquoted_[unquoted_used_] = std::move(text);
  fields_.push_back(unquoted_[unquoted_used_++]);
  return absl::OkStatus();
}

bool ParseInteger(std::string_view field, int64_t* value) {
  field = NumberIn(field);
  const char* const end = field.data() + field.size();
  const auto result = std::from_chars(field.data(), end, *value);
  return !field.empty() && result.ec == std::errc() && result.ptr == end;
}

bool ParseNumber(std::string_view field, double* value) {
  field = NumberIn(field);
  const char* end = field.data() + field.size();
  auto result = std::from_chars(field.data(), end, *value);
  if (result.ec == std::errc::result_out_of_range) {
    // A number too close to 0 becomes the nearest number; one too far from 0 is refused.
    *value = std::strtod(std::string(field).c_str(), nullptr);
    if (std::isfinite(*value)) result.ec = std::errc();
  }
  return !field.empty() && result.ec == std::errc() && result.ptr == end && std::isfinite(*value);
}

}  // namespace cohort
