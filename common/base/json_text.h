#ifndef COHORT_COMMON_BASE_JSON_TEXT_H_
#define COHORT_COMMON_BASE_JSON_TEXT_H_

#include <absl/status/statusor.h>

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace cohort {

// Parses a JSON text. Errors: InvalidArgument that names line and column, also for values that are
// nested more than 200 deep, which no text of Cohort or Keras is. So a reader may visit the result
// by recursion, and so may the functions of the library that do it: copies and dump().
absl::StatusOr<nlohmann::json> ParseJsonText(std::string_view text);

// Access to members of JSON values that may have any type. Null if `value` is no object, if it has
// no such member, or if the member is null.
const nlohmann::json* FindMember(const nlohmann::json& value, std::string_view key);
// "" if the member is no string.
std::string StringMember(const nlohmann::json& value, std::string_view key);

// The start of a value for an error: `{"class_name": ...`.
std::string ShortText(const nlohmann::json& value);

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_JSON_TEXT_H_
