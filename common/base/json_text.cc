#include "common/base/json_text.h"

#include <nlohmann/json.hpp>

#include "common/base/printable.h"
#include "common/base/status.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

// A layer is three levels inside its model.
constexpr int kMaxDepth = 200;

// Checks the syntax and the depth, and keeps the error.
class SyntaxCheck : public nlohmann::json_sax<Json> {
 public:
  const std::string& error() const { return error_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool key(std::string&) override { return true; }
  bool start_object(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 13: ..."
    constexpr std::string_view kBefore = " at ";
    const std::string_view what = error.what();
    const size_t at = what.find(kBefore);
    error_ = PrintableLine(at == what.npos ? what : what.substr(at + kBefore.size()));
    return false;
  }

 private:
  bool Enter() {
    if (++depth_ <= kMaxDepth) return true;
    error_ = fmt::format("values are nested more than {} deep", kMaxDepth);
    return false;
  }
  bool Leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  std::string error_;
};

}  // namespace

absl::StatusOr<Json> ParseJsonText(std::string_view text) {
  SyntaxCheck check;
  if (!Json::sax_parse(text.begin(), text.end(), &check)) {
    return InvalidArgument("not JSON: {}", check.error());
  }
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

const Json* FindMember(const Json& value, std::string_view key) {
  if (!value.is_object()) return nullptr;
  const auto it = value.find(std::string(key));
  return it == value.end() || it->is_null() ? nullptr : &*it;
}

std::string StringMember(const Json& value, std::string_view key) {
  const Json* const member = FindMember(value, key);
  return member != nullptr && member->is_string() ? member->get<std::string>() : "";
}

std::string ShortText(const Json& value) {
  constexpr size_t kMost = 60;
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

}  // namespace cohort
