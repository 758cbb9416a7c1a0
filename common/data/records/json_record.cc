#include "common/data/records/json_record.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/printable.h"
#include "common/base/status.h"

namespace cohort {
namespace {

// No record of a data set is nested deeper.
constexpr size_t kMaxJsonDepth = 200;

class JsonWalk : public nlohmann::json_sax<nlohmann::json> {
 public:
  using Visit = absl::FunctionRef<absl::Status(std::string_view path, const JsonValue& value)>;
  JsonWalk(std::string_view text, Visit visit) : text_(text), visit_(visit) {}
  const absl::Status& status() const { return status_; }

  bool null() override { return Give({}); }
  bool boolean(bool value) override {
    return Give(
        {.kind = JsonValue::Kind::kBool, .integer = value ? 1 : 0, .number = value ? 1.0 : 0.0});
  }
  bool number_integer(int64_t value) override {
    return Give({.kind = JsonValue::Kind::kInteger,
                 .integer = value,
                 .number = static_cast<double>(value)});
  }
  bool number_unsigned(uint64_t value) override {
    if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return number_integer(static_cast<int64_t>(value));
    }
    return number_float(static_cast<double>(value), std::to_string(value));
  }
  bool number_float(double value, const std::string& text) override {
    return Give({.kind = JsonValue::Kind::kFloat, .number = value, .text = text});
  }
  bool string(std::string& text) override {
    return Give({.kind = JsonValue::Kind::kText, .text = text});
  }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool key(std::string& key) override {
    path_.resize(levels_.back().path);
    if (!path_.empty()) path_ += '.';
    path_ += key;
    return true;
  }
  bool start_object(size_t) override { return Enter(/*list=*/false); }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override {
    if (levels_.empty()) return Fail(DataLoss("is a list; a record is a JSON object"));
    return Enter(/*list=*/true);
  }
  bool end_array() override { return Leave(); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 13: syntax error ..."
    std::string_view what = error.what();
    const size_t column = what.find(", column ");
    const size_t reason = what.find(": ", column == what.npos ? 0 : column);
    if (reason != what.npos) what.remove_prefix(reason + 2);
    const size_t at = std::min(position == 0 ? 0 : position - 1, text_.size());
    const char* hint = "";
    if (text_.substr(at).starts_with("NaN") || text_.substr(at).starts_with("Infinity")) {
      hint = ". NaN and Infinity are no JSON: write null";
    }
    return Fail(DataLoss("column {}: is not JSON: {}{}", position, PrintableLine(what), hint));
  }

 private:
  struct Level {
    bool list;
    size_t path;  // the length of the path that leads there
  };

  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  bool Enter(bool list) {
    if (levels_.size() == kMaxJsonDepth) {
      return Fail(DataLoss("values are nested more than {} deep", kMaxJsonDepth));
    }
    levels_.push_back({list, path_.size()});
    lists_ += list ? 1 : 0;
    return true;
  }
  bool Leave() {
    path_.resize(levels_.back().path);
    lists_ -= levels_.back().list ? 1 : 0;
    levels_.pop_back();
    return true;
  }
  bool Give(JsonValue value) {
    if (levels_.empty()) return Fail(DataLoss("is a value; a record is a JSON object"));
    value.in_list = lists_ > 0;
    status_ = visit_(path_, value);
    return status_.ok();
  }

  const std::string_view text_;
  const Visit visit_;
  std::string path_;
  std::vector<Level> levels_;
  int lists_ = 0;
  absl::Status status_;
};

}  // namespace

absl::Status VisitJson(
    std::string_view text,
    absl::FunctionRef<absl::Status(std::string_view path, const JsonValue& value)> visit) {
  JsonWalk walk(text, visit);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &walk)) return absl::OkStatus();
  return walk.status().ok() ? DataLoss("is not JSON") : walk.status();
}

}  // namespace cohort
