#include "common/rpc/control/control_message.h"

#include <nlohmann/json.hpp>

#include "common/base/status.h"

namespace cohort {
namespace {

using nlohmann::json;

std::string ToLine(const json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

}  // namespace

std::string EncodeControlAnswer(const absl::StatusOr<std::string>& result) {
  if (!result.ok()) {
    return ToLine({{"error",
                    {{"code", static_cast<int>(result.status().code())},
                     {"message", std::string(result.status().message())}}}});
  }
  const json value = json::parse(*result, nullptr, /*allow_exceptions=*/false);
  return value.is_object() ? ToLine({{"result", value}})
                           : EncodeControlAnswer(Internal("an answer that is not a JSON object"));
}

absl::StatusOr<std::string> DecodeControlAnswer(std::string_view line) {
  const json answer = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (answer.is_object() && answer.contains("result") && answer["result"].is_object()) {
    return ToLine(answer["result"]);
  }
  if (answer.is_object() && answer.contains("error") && answer["error"].is_object()) {
    const json& error = answer["error"];
    if (error.contains("code") && error["code"].is_number_integer() && error["code"] != 0 &&
        error.contains("message") && error["message"].is_string()) {
      return absl::Status(static_cast<absl::StatusCode>(error["code"].get<int>()),
                          error["message"].get<std::string>());
    }
  }
  return DataLoss("an answer that no chief writes: {}", line);
}

}  // namespace cohort
