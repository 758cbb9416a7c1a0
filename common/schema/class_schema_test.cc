#include "common/schema/class_schema.h"

#include <catch2/catch.hpp>

#include "common/schema/class_registry.h"

namespace cohort {
namespace {

using Catch::Contains;

struct Curve {
  ClassSchema schema;
  int degree = 0;
};

const SchemaSet& Curves() {
  static auto& curves = *new ClassRegistry<Curve>(
      "curve", SchemaSet::Spelling::kKeras, "Spline",
      {{{"Line", {"straight"}, "A line.", {Float("slope", "Its slope.").Default(1)}}, 1},
       {{"HalfCircle", {}, "", {Float("radius", "").AtLeast(0)}}, 2}});
  return curves;
}

ClassSchema Road() {
  return {
      "Road",
      {},
      "A road.",
      {Int("lanes", "How many.").AtLeast(1), Float("share", "").Default(0.5).Below(0, 1),
       Bool("wet", "").Default(false), String("side", "").Default("left").OneOf({"left", "right"}),
       Ints("stops", "").Default(std::vector<int64_t>{1, 2}),
       Floats("grades", "").Between(-1, 1).Optional(), Object("curve", Curves, "").Default("Line"),
       Int("seed", "").Optional(), Planned("toll")}};
}

v1::ClassConfig Given(std::initializer_list<std::pair<const char*, v1::ConfigValue>> values) {
  v1::ClassConfig config;
  for (const auto& [name, value] : values) (*config.mutable_config())[name] = value;
  return config;
}

std::string Problem(const v1::ClassConfig& given) {
  std::string argument;
  const auto completed = CompleteConfig(Road(), given, &argument);
  REQUIRE_FALSE(completed.ok());
  return argument + ": " + std::string(completed.status().message());
}

TEST_CASE("defaults are filled in, also in objects inside") {
  const ClassSchema road = Road();
  const auto completed = CompleteConfig(road, Given({{"lanes", ConfigOf(int64_t{2})}}));
  REQUIRE(completed.ok());
  const Config config(*completed);
  CHECK(completed->class_name() == "Road");
  CHECK(config.Int("lanes") == 2);
  CHECK(config.Float("share") == 0.5);
  CHECK(config.String("side") == "left");
  CHECK(config.Ints("stops") == std::vector<int64_t>{1, 2});
  CHECK(config.IsNone("seed"));
  CHECK(config.Object("curve").class_name() == "Line");
  CHECK(Config(config.Object("curve")).Float("slope") == 1);
  // What is complete stays as it is.
  const auto again = CompleteConfig(road, *completed);
  REQUIRE(again.ok());
  CHECK(ConfigText(ConfigOf(*again)) == ConfigText(ConfigOf(*completed)));
}

TEST_CASE("values are converted as Keras does") {
  v1::ClassConfig circle;
  circle.set_class_name("half_circle");
  (*circle.mutable_config())["radius"] = ConfigOf(int64_t{3});
  const auto completed =
      CompleteConfig(Road(), Given({{"lanes", ConfigOf(int64_t{2})},
                                    {"share", ConfigOf(int64_t{0})},
                                    {"stops", ConfigOf(int64_t{7})},
                                    {"grades", ConfigOf(std::vector<int64_t>{0, 1})},
                                    {"side", v1::ConfigValue()},  // an empty value is the default
                                    {"curve", ConfigOf(circle)}}));
  REQUIRE(completed.ok());
  const Config config(*completed);
  CHECK(config.Float("share") == 0);
  CHECK(config.Ints("stops") == std::vector<int64_t>{7});
  CHECK(config.Floats("grades") == std::vector<double>{0, 1});
  CHECK(config.String("side") == "left");
  CHECK(Config(config.Object("curve")).Float("radius") == 3);
}

TEST_CASE("an unsuitable argument is named with what would suit") {
  const v1::ConfigValue two = ConfigOf(int64_t{2});
  CHECK(Problem({}) == "lanes: Road needs its argument `lanes`");
  CHECK_THAT(Problem(Given({{"lanes", two}, {"lane", two}})),
             Contains("Road has no argument \"lane\"") && Contains("did you mean \"lanes\""));
  CHECK(Problem(Given({{"lanes", ConfigOf(int64_t{0})}})) ==
        "lanes: Road: lanes must be at least 1, not 0");
  CHECK(Problem(Given({{"lanes", two}, {"share", ConfigOf(1.0)}})) ==
        "share: Road: share must be in [0, 1), not 1");
  CHECK(Problem(Given({{"lanes", ConfigOf(std::string_view("two"))}})) ==
        "lanes: Road: lanes must be an integer, not \"two\"");
  CHECK(Problem(Given({{"lanes", two}, {"grades", ConfigOf(1.5)}})) ==
        "grades: Road: grades must be in [-1, 1], not 1.5");
  CHECK(Problem(Given({{"lanes", two}, {"grades", ConfigOf(true)}})) ==
        "grades: Road: grades must be a list of numbers, not true");
  CHECK_THAT(Problem(Given({{"lanes", two}, {"side", ConfigOf(std::string_view("rigt"))}})),
             Contains("must be left, right") && Contains("did you mean \"right\""));
  CHECK_THAT(Problem(Given({{"lanes", two}, {"toll", ConfigOf(std::string_view("1 €"))}})),
             Contains("`toll` of Road is not supported yet"));
  CHECK_THAT(Problem(Given({{"lanes", two}, {"curve", ConfigOf(std::string_view("Circle"))}})),
             Contains("curve: there is no curve \"Circle\""));
  CHECK_THAT(Problem(Given({{"lanes", two}, {"curve", ConfigOf(std::string_view("Spline"))}})),
             Contains("curve \"Spline\" is not supported yet; supported: HalfCircle, Line"));
  CHECK_THAT(Problem(Given({{"lanes", two}, {"curve", ConfigOf(std::string_view("HalfCircle"))}})),
             Contains("HalfCircle needs its argument `radius`"));
}

TEST_CASE("a registry finds a class by each of its names, and refuses a name twice") {
  ClassRegistry<Curve> curves("curve", SchemaSet::Spelling::kKeras, "",
                              {{{"HalfCircle", {"hc"}, "", {}}, 2}});
  for (const char* name : {"HalfCircle", "half_circle", "halfcircle", "hc"}) {
    const auto found = curves.Find(name);
    REQUIRE(found.ok());
    CHECK((*found)->degree == 2);
  }
  CHECK(curves.Register({{"hc", {}, "", {}}, 3}).code() == absl::StatusCode::kAlreadyExists);
  CHECK(curves.AddedNames().empty());
  CHECK(curves.Register({{"Arc", {}, "", {}}, 3}).ok());
  // Its lower-case name would be meant by the name of another class.
  CHECK(curves.Register({{"ARC", {}, "", {}}, 3}).code() == absl::StatusCode::kAlreadyExists);
  CHECK(curves.AddedNames() == std::vector<std::string>{"Arc"});
  CHECK(curves.Schemas().front()->name == "Arc");
  CHECK_FALSE(curves.Find("Halfcircle").ok());
  const ClassRegistry<Curve> any_case("curve", SchemaSet::Spelling::kAnyCase, "",
                                      {{{"HalfCircle", {}, "", {}}, 2}});
  CHECK(any_case.Find("Halfcircle").ok());
  CHECK(any_case.Find("half_circle").ok());
}

TEST_CASE("snake case as Keras") {
  CHECK(SnakeCase("GlobalAveragePooling1D") == "global_average_pooling1d");
  CHECK(SnakeCase("PReLU") == "p_re_lu");
  CHECK(SnakeCase("ReLU") == "re_lu");
  CHECK(SnakeCase("LSTM") == "lstm");
  CHECK(SnakeCase("InputLayer") == "input_layer");
  CHECK(SnakeCase("RMSprop") == "rm_sprop");
  CHECK(SnakeCase("dense") == "dense");
}

TEST_CASE("the reference has a row for every argument that works") {
  const std::string text = ReferenceOf(Road());
  CHECK_THAT(text, Contains("### Road\n\nA road.\n"));
  CHECK_THAT(text, Contains("| `lanes` | an integer, at least 1 | required | How many. |"));
  CHECK_THAT(text, Contains("| `curve` | curve | Line |"));
  CHECK_THAT(text, !Contains("toll"));
}

}  // namespace
}  // namespace cohort
