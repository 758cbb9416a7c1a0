// Callbacks stop after the epoch after which Keras 3 does (tests/golden/make_callback_golden.py).
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/model/callbacks/callback.h"

namespace cohort {
namespace {

using nlohmann::json;

v1::ClassConfig ConfigOfCase(const json& arguments) {
  v1::ClassConfig given;
  given.set_class_name("EarlyStopping");
  for (const auto& [name, value] : arguments.items()) {
    (*given.mutable_config())[name] =
        value.is_string() ? ConfigOf(std::string_view(value.get_ref<const std::string&>()))
        : value.is_number_integer() ? ConfigOf(value.get<int64_t>())
                                    : ConfigOf(value.get<double>());
  }
  return *CompleteConfig(CallbackSchemas(), given);
}

TEST_CASE("EarlyStopping stops after the same epoch as in Keras") {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  std::ifstream file(std::string(source != nullptr ? source : ".") +
                     "/tests/golden/callbacks.json");
  const json golden = json::parse(file, nullptr, false);
  REQUIRE(golden.is_object());
  REQUIRE(golden["early_stopping"].size() > 100);
  for (const json& c : golden["early_stopping"]) {
    INFO(c.dump());
    const v1::ClassConfig config = ConfigOfCase(c["arguments"]);
    const auto callback = (*Callbacks().Find("EarlyStopping"))->make(Config(config));
    uint64_t stopped = 0;
    EpochValues epoch;
    for (const json& value : c["values"]) {
      ++epoch.epoch;
      epoch.values.clear();
      if (!value.is_null()) epoch.values["val_loss"] = value.get<double>();
      if (callback->OnEpochEnd(epoch).has_value()) {
        stopped = epoch.epoch;
        break;
      }
    }
    CHECK(stopped == c["stopped"].get<uint64_t>());
  }
}

}  // namespace
}  // namespace cohort
