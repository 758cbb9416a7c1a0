#ifndef COHORT_COMMON_DATA_RECORDS_JSON_RECORD_H_
#define COHORT_COMMON_DATA_RECORDS_JSON_RECORD_H_

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <cstdint>
#include <string_view>

namespace cohort {

// A number, a text, true, false or null of a JSON text.
struct JsonValue {
  enum class Kind { kNull, kBool, kInteger, kFloat, kText };
  Kind kind = Kind::kNull;
  int64_t integer = 0;    // kBool: 0 or 1; kInteger
  double number = 0;      // kFloat, and the same as `integer`
  std::string_view text;  // kText; kFloat as it is spelled
  bool in_list = false;
};

// Reads a JSON object and calls `visit` for each of its values, in their order. `path` are the keys
// that lead there, with dots between them: `{"a": {"b": [1, 2]}}` has two values at "a.b". Errors:
// those of `visit`; DataLoss for what is no JSON object, with the column of the line.
absl::Status VisitJson(
    std::string_view text,
    absl::FunctionRef<absl::Status(std::string_view path, const JsonValue& value)> visit);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORDS_JSON_RECORD_H_
