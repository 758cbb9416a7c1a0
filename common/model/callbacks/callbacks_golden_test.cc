// Callbacks decide what those of Keras 3 do (tests/golden/make_callback_golden.py).
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/model/callbacks/callback.h"

namespace cohort {
namespace {

using nlohmann::json;

json CasesOf(const char* callback) {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  std::ifstream file(std::string(source != nullptr ? source : ".") +
                     "/tests/golden/callbacks.json");
  const json golden = json::parse(file, nullptr, false);
  REQUIRE(golden.is_object());
  REQUIRE(golden[callback].size() > 0);
  return golden[callback];
}

v1::ConfigValue ValueOf(const json& value) {
  if (value.is_string()) return ConfigOf(std::string_view(value.get_ref<const std::string&>()));
  if (value.is_number_integer()) return ConfigOf(value.get<int64_t>());
  if (value.is_number()) return ConfigOf(value.get<double>());
  v1::ConfigValue list;
  for (const json& item : value) *list.mutable_list()->add_values() = ValueOf(item);
  return list;
}

std::unique_ptr<Callback> Make(const char* name, const json& arguments) {
  v1::ClassConfig given;
  given.set_class_name(name);
  for (const auto& [argument, value] : arguments.items()) {
    (*given.mutable_config())[argument] = ValueOf(value);
  }
  const auto complete = CompleteConfig(CallbackSchemas(), given);
  REQUIRE(complete.ok());
  return (*Callbacks().Find(name))->make(Config(*complete));
}

EpochValues EpochOf(uint64_t epoch, const json& value) {
  EpochValues values{.epoch = epoch};
  if (!value.is_null()) values.values["val_loss"] = value.get<double>();
  return values;
}

// The rate of an optimizer of Keras is a float32.
double Kept(double rate) { return static_cast<double>(static_cast<float>(rate)); }

// The rates of a case by epoch. It has those that differ from the one before.
std::vector<double> RatesOf(const json& c, size_t epochs) {
  std::vector<double> rates;
  double rate = c["first"].get<double>();
  for (size_t epoch = 0; epoch < epochs; ++epoch) {
    rate = c["rates"].value(std::to_string(epoch), rate);
    rates.push_back(rate);
  }
  return rates;
}

TEST_CASE("EarlyStopping stops after the same epoch as in Keras") {
  for (const json& c : CasesOf("early_stopping")) {
    INFO(c.dump());
    const auto callback = Make("EarlyStopping", c["arguments"]);
    uint64_t stopped = 0;
    EpochDecision decision;
    for (size_t i = 0; i < c["values"].size() && stopped == 0; ++i) {
      callback->OnEpochEnd(EpochOf(i + 1, c["values"][i]), &decision);
      if (!decision.stop.empty()) stopped = i + 1;
    }
    CHECK(stopped == c["stopped"].get<uint64_t>());
  }
}

TEST_CASE("ReduceLROnPlateau reduces the rate after the same epochs as in Keras") {
  for (const json& c : CasesOf("reduce_lr_on_plateau")) {
    INFO(c.dump());
    const auto callback = Make("ReduceLROnPlateau", c["arguments"]);
    EpochDecision decision{.learning_rate = c["first"].get<double>()};
    const std::vector<double> rates = RatesOf(c, c["values"].size());
    for (size_t i = 0; i < rates.size(); ++i) {
      callback->OnEpochEnd(EpochOf(i + 1, c["values"][i]), &decision);
      decision.learning_rate = Kept(*decision.learning_rate);
      REQUIRE(decision.learning_rate == rates[i]);
    }
  }
}

TEST_CASE("LearningRateScheduler sets the rates of its epochs as a function of Keras does") {
  for (const json& c : CasesOf("learning_rate_scheduler")) {
    INFO(c.dump());
    const auto callback = Make("LearningRateScheduler", {{"schedule", c["schedule"]}});
    EpochDecision decision{.learning_rate = c["first"].get<double>()};
    const std::vector<double> rates = RatesOf(c, 20);
    for (size_t epoch = 0; epoch < rates.size(); ++epoch) {
      callback->OnEpochBegin(epoch, &decision);
      decision.learning_rate = Kept(*decision.learning_rate);
      REQUIRE(decision.learning_rate == rates[epoch]);
    }
  }
}

TEST_CASE("CSVLogger writes the file of Keras") {
  for (const json& c : CasesOf("csv_logger")) {
    const auto callback =
        Make("CSVLogger", {{"filename", "log.csv"}, {"separator", c["separator"]}});
    EpochDecision decision;
    uint64_t epoch = 0;
    for (const json& values : c["epochs"]) {
      EpochValues gave{.epoch = ++epoch};
      for (const auto& [name, value] : values.items()) gave.values[name] = value.get<double>();
      callback->OnEpochEnd(gave, &decision);
    }
    CHECK(callback->File()->path == "log.csv");
    CHECK(callback->File()->text == c["text"].get<std::string>());
  }
}

}  // namespace
}  // namespace cohort
