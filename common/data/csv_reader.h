#ifndef COHORT_COMMON_DATA_CSV_READER_H_
#define COHORT_COMMON_DATA_CSV_READER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// Splits CSV text (RFC 4180) into records.
class CsvReader {
 public:
  // Appends more of the text to what it is given, unless this is all. Errors are those of Next.
  using More = std::function<absl::Status(std::string* text)>;

  // `text` is all, and outlives the reader.
  CsvReader(std::string_view text, char delimiter, std::string_view name);
  // Text of any length that comes in pieces. As much is in memory as a record and a piece have.
  CsvReader(More more, char delimiter, std::string_view name);

  // Reads the next record that is not an empty line into fields(). Returns false at the end.
  // Errors: DataLoss that names file and line: an unclosed quote, text after a closing quote, a NUL
  // byte. Those of More.
  absl::StatusOr<bool> Next();

  // They are valid until the next call of Next.
  const std::vector<std::string_view>& fields() const { return fields_; }
  // Where the text of the next record starts, in bytes from the start of all text.
  uint64_t offset() const { return dropped_ + at_; }
  // The line on which the record starts, from 1.
  uint64_t line() const { return record_line_; }

 private:
  absl::StatusOr<bool> NextHere();
  absl::Status Refill();
  void SkipByteOrderMark();
  absl::Status CheckLineEnds() const;
  absl::Status ReadField();
  absl::Status ReadQuoted();
  bool ReadPlain();  // false: it has a NUL byte
  bool AtLineEnd() const;
  void SkipBlanks();
  void SkipLineEnd();

  const More more_;
  bool is_checked_ = false;  // the first piece is
  bool is_all_ = true;       // text_ ends where the text does
  std::string window_;       // the text, or the part of it that is read
  std::string_view text_;
  const char delimiter_;
  const std::string name_;
  size_t at_ = 0;
  uint64_t dropped_ = 0;  // bytes of the text before the window
  uint64_t line_ = 1;
  uint64_t record_line_ = 0;
  std::vector<std::string_view> fields_;
  std::deque<std::string> unquoted_;  // the text of fields with doubled quotes
  size_t unquoted_used_ = 0;
};

// Parses the number in a field, which may have blanks around it. Returns false if the field holds
// no number, or one that is not finite.
bool ParseNumber(std::string_view field, double* value);
// The same for an integer, which has no point and no exponent. Returns false also for one that
// int64 cannot hold.
bool ParseInteger(std::string_view field, int64_t* value);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_CSV_READER_H_
