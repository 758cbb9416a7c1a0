#include "common/base/json_text.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/testing/directory_test_util.h"
#include "common/testing/status_test_util.h"

namespace cohort {
namespace {

std::string Nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST_CASE("JSON is read up to a depth that recursion can visit") {
  CHECK(ParseJsonText(R"({"a": [1, {"b": null}]})").ok());
  CHECK(ParseJsonText(Nested(200))->dump() == Nested(200));
  for (const size_t depth : {size_t{201}, size_t{5'000'000}}) {
    CHECK(testing::Message(ParseJsonText(Nested(depth)).status()) ==
          "not JSON: values are nested more than 200 deep");
  }
  CHECK(testing::Contains(testing::Message(ParseJsonText("{\"a\":\n 1,}").status()),
                          "not JSON: line 2, column 4"));
}

}  // namespace
}  // namespace cohort
