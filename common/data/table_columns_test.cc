// Expressions, filters, dates and lists of tables. tests/golden compares them with pandas.
#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

#include "common/data/convert.h"
#include "common/data/data_test_arrays.h"
#include "common/data/dataset.h"
#include "common/data/expression.h"
#include "common/data/fingerprint.h"
#include "common/testing/status_test_util.h"

namespace cohort {
namespace {

using testing::AddTransform;
using testing::Contains;
using testing::CsvSpec;
using testing::Message;

// The value of an expression for a = 3, b = -2, c = 0.5.
double ValueOf(std::string_view text) {
  const auto expression = Expression::Parse(text);
  INFO(text << ": " << expression.status());
  REQUIRE(expression.ok());
  std::vector<double> values;
  for (const std::string& column : expression->columns()) {
    values.push_back(column == "a" ? 3 : column == "b" ? -2 : 0.5);
  }
  std::vector<const double*> inputs;
  for (const double& value : values) inputs.push_back(&value);
  double result = 0;
  expression->Compute(inputs, {&result, 1});
  return result;
}

std::string ParseError(std::string_view text) { return Message(Expression::Parse(text).status()); }

TEST_CASE("expressions compute as Python and NumPy") {
  CHECK(ValueOf("a + b * 2") == -1);
  CHECK(ValueOf("(a + b) * 2 / 4") == 0.5);
  CHECK(ValueOf("-a ** 2") == -9);
  CHECK(ValueOf("2 ** 3 ** 2 + 0 * a") == 512);
  CHECK(ValueOf("b % a") == 1);
  CHECK(ValueOf("a % b") == -1);
  CHECK(ValueOf("log1p(a)") == std::log1p(3));
  CHECK(ValueOf("expm1(c) + log10(a) + sqrt(a)") == std::expm1(0.5) + std::log10(3) + std::sqrt(3));
  CHECK(ValueOf("round(c) + round(c + 1) + floor(c) + ceil(c)") == 3);
  CHECK(ValueOf("max(a, b, c) + min(a, b, c) + clip(a, 0, 1) + sign(b)") == 1);
  CHECK(ValueOf("where(b < 0, a, c)") == 3);
  CHECK(ValueOf("b < 0 ? a : c") == 3);
  CHECK(ValueOf("a > 2 and b > 2") == 0);
  CHECK(ValueOf("a > 2 or b > 2") == 1);
  CHECK(ValueOf("not a > 2") == 0);
  CHECK(ValueOf("not a > 2 or not b > 2") == 1);
  CHECK(ValueOf("a >= 3 && a != 4 && !(b == 2)") == 1);
  CHECK(ValueOf("1.5e-1 * a + .5") == 1.5e-1 * 3 + .5);
  CHECK(ValueOf("isnan(log(b)) + isfinite(a / 0)") == 1);
  CHECK(ValueOf("`a` + true") == 4);
  CHECK(std::isinf(ValueOf("1 / (a - 3)")));
}

TEST_CASE("names of columns need be no identifiers, and may be words of the grammar") {
  const auto expression = Expression::Parse("`hours-per-week` / order + user.age + e + v1 + log");
  REQUIRE(expression.ok());
  CHECK(expression->columns() ==
        std::vector<std::string>{"hours-per-week", "order", "user.age", "e", "v1", "log"});
  const auto words = Expression::Parse("country == 'US' and not kind != \"a b\" or age > 3");
  REQUIRE(words.ok());
  CHECK(words->columns() == std::vector<std::string>{"age"});
  REQUIRE(words->comparisons().size() == 2);
  CHECK(words->comparisons()[1].column == "kind");
  CHECK(words->comparisons()[1].word == "a b");
  const double age = 1, us = 0, kind = 0;
  double result = 2;
  words->Compute(std::vector<const double*>{&age, &us, &kind}, {&result, 1});
  CHECK(result == 0);
}

TEST_CASE("a malformed expression is refused with its place") {
  CHECK(Contains(ParseError("a = 3"),
                 "\"a = 3\": at character 3: two values are compared with `==`"));
  CHECK(Contains(ParseError("0 < a < 5"), "at character 7: compare two values at a time"));
  CHECK(Contains(ParseError("(a > 1) & (b > 1)"), "at character 9: write `and`, `or`, `not`"));
  CHECK(Contains(ParseError("lg(a)"),
                 "at character 1: there is no function \"lg\"; there are abs, "));
  CHECK(Contains(ParseError("a + ;"), "at character 5: \";\" is no part of an expression"));
  CHECK(Contains(ParseError("`a"), "the backquote is never closed"));
  CHECK(Contains(ParseError("a == 'x"), "the quote is never closed"));
  CHECK(Contains(ParseError("'x' == a"), "a word is compared with a column"));
  CHECK(Contains(ParseError(""), "it is empty"));
  CHECK(Contains(ParseError("1 + 2"), "names no column"));
  for (const char* bad : {"a +", "(a", "a b", "log(a, b)", "a, b", ")", "a ? b"}) {
    CHECK(Contains(ParseError(bad), fmt::format("\"{}\": ", bad)));
  }
}

TEST_CASE("an expression is the same for all threads") {
  const auto expression = Expression::Parse("a * 2 + 1");
  REQUIRE(expression.ok());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const double a = t * 10000 + i;
        double result = 0;
        expression->Compute(std::vector<const double*>{&a}, {&result, 1});
        if (result != a * 2 + 1) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

// ------------------------------------------------------------------ data sets

v1::ColumnTransform* AddExpression(v1::DatasetSpec* spec, std::string_view output,
                                   std::string_view text) {
  return AddTransform(spec, "", ClassOf("Expression", {{"expression", ConfigOf(text)}}), output);
}

v1::DatasetSpec JsonSpec(std::string_view path) {
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = ClassOf("json_lines", {{"path", ConfigOf(path)}});
  return spec;
}

std::vector<double> Numbers(const v1::DatasetSpec& spec, const std::string& name) {
  const auto dataset = Dataset::Open(spec);
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  const auto feature = (*dataset)->FindFeatures({&name, 1});
  INFO(feature.status());
  REQUIRE(feature.ok());
  std::vector<uint64_t> indices((*dataset)->num_records());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  std::vector<Tensor> batch;
  REQUIRE(Message((*dataset)->Gather(indices, *feature, &batch)) == "");
  std::vector<double> numbers;
  WithType(batch[0].dtype(), [&](auto zero) {
    const auto values = batch[0].values<decltype(zero)>();
    numbers.assign(values.begin(), values.end());
  });
  return numbers;
}

std::string OpenError(const v1::DatasetSpec& spec) { return Message(Dataset::Open(spec).status()); }

const testing::TestDirectory& Tables() {
  static const auto& directory = *[] {
    auto* const made = new testing::TestDirectory();
    made->Write("t.csv",
                "age,country,x,tags,scores\n"
                "17,US,1,a|b,1;2\n"
                "18,US,2,b,3\n"
                "40,DE,3,,\n"
                "50,US,4,c|a|b,4;5;6\n"
                "60,FR,5,a,7;8\n");
    made->Write("t.jsonl",
                "{\"age\": 17, \"country\": \"US\", \"x\": 1}\n"
                "{\"age\": 18, \"country\": \"US\", \"x\": 2}\n"
                "{\"age\": 40, \"country\": \"DE\", \"x\": 3}\n"
                "{\"age\": 50, \"country\": \"US\", \"x\": 4}\n"
                "{\"age\": 60, \"country\": \"FR\", \"x\": 5}\n");
    return made;
  }();
  return directory;
}

// The same table in memory, and read by index.
std::vector<v1::DatasetSpec> BothTables() {
  return {CsvSpec(Tables() / "t.csv"), JsonSpec(Tables() / "t.jsonl")};
}

TEST_CASE("an expression makes a column, in memory and by index") {
  for (v1::DatasetSpec spec : BothTables()) {
    AddExpression(&spec, "ratio", "x / age");
    AddExpression(&spec, "wide", "ratio * age + 0.5")->set_dtype("float64");
    const std::vector<double> wide = Numbers(spec, "wide");
    REQUIRE(wide.size() == 5);
    for (size_t i = 0; i < 5; ++i) CHECK(wide[i] == Approx(static_cast<double>(i) + 1.5));
    CHECK(Numbers(spec, "ratio")[2] == 3.0F / 40);
    AddExpression(&spec, "bad", "country + 1");
    CHECK(Contains(OpenError(spec), "country"));
  }
  v1::DatasetSpec spec = BothTables()[0];
  AddExpression(&spec, "", "x / age");
  CHECK(Contains(OpenError(spec), "`columns` needs an `output`"));
  spec = BothTables()[0];
  AddTransform(&spec, "age", ClassOf("Expression", {{"expression", ConfigOf("x + 1")}}));
  CHECK(Contains(OpenError(spec), "Expression reads x: leave out `column`"));
  spec = BothTables()[0];
  AddTransform(&spec, "x", ClassOf("Expression", {{"expression", ConfigOf("log1p(x)")}}));
  CHECK(Numbers(spec, "x")[4] == static_cast<float>(std::log1p(5)));
}

TEST_CASE("a filter leaves out records when the data is opened") {
  for (v1::DatasetSpec spec : BothTables()) {
    spec.set_filter("age >= 18 and country == 'US'");
    CHECK(Numbers(spec, "x") == std::vector<double>{2, 4});
    spec.set_filter("age >= 18");
    CHECK(Numbers(spec, "x") == std::vector<double>{2, 3, 4, 5});
    spec.set_skip(1);
    spec.set_take(2);
    CHECK(Numbers(spec, "x") == std::vector<double>{3, 4});
    spec.set_take(4);
    CHECK(Contains(OpenError(spec), "4"));
    spec.set_take(0);
    spec.set_filter("age > 100");
    CHECK(Contains(OpenError(spec), "filter \"age > 100\": none of the 5 records passes"));
    spec.set_filter("height > 100");
    CHECK(Contains(OpenError(spec), "there is no column \"height\"; there are "));
    spec.set_filter("age >");
    CHECK(Contains(OpenError(spec), "filter: \"age >\": "));
  }
}

TEST_CASE("a filter sees the columns of the source, and outputs of transforms") {
  for (v1::DatasetSpec spec : BothTables()) {
    spec.set_filter("age >= 18 and twice < 9");
    AddTransform(&spec, "age", testing::Scaled(0.01));
    AddExpression(&spec, "twice", "x * 2");
    CHECK(Numbers(spec, "x") == std::vector<double>{2, 3, 4});
    CHECK(Numbers(spec, "age")[0] == Approx(0.18));
  }
}

TEST_CASE("a vocabulary is learned from the records that pass") {
  for (v1::DatasetSpec spec : BothTables()) {
    spec.set_filter("country != 'US'");
    AddTransform(&spec, "country", testing::Lookup());
    CHECK(Numbers(spec, "country") == std::vector<double>{2, 1});
    AddTransform(&spec, "country", testing::Lookup(), "number");
    spec.set_filter("number > 1");
    CHECK(Contains(OpenError(spec), "it reads the output of StringLookup, which learns from"));
  }
}

TEST_CASE("errors of filtered records name their place in the file, and filters differ") {
  const testing::TestDirectory directory;
  directory.Write("bad.csv", "a,y\n1,0\n5,1\n6,9\n");
  v1::DatasetSpec spec = CsvSpec(directory / "bad.csv");
  spec.set_filter("a > 2");
  v1::ColumnRead* const read = spec.add_reads();
  read->set_column("y");
  read->set_dtype("int64");
  read->set_below(2);
  read->set_reader("the loss");
  CHECK(Contains(OpenError(spec), "bad.csv: line 4: column \"y\": 9 does not lie in [0, 2)"));
  const auto fingerprint = [](v1::DatasetSpec of, std::string_view filter) {
    of.set_filter(std::string(filter));
    return (*Dataset::Open(of))->fingerprint();
  };
  for (const v1::DatasetSpec& table : BothTables()) {
    const ReadData first = {fingerprint(table, "age != 17"), "here"};
    CHECK(DifferenceOf(first, {fingerprint(table, "age > 17"), "there"}).empty());
    CHECK(!DifferenceOf(first, {fingerprint(table, "age != 18"), "there"}).empty());
  }
}

TEST_CASE("dates become numbers of their parts in UTC") {
  const testing::TestDirectory directory;
  directory.Write("d.csv",
                  "when,day,stamp\n"
                  "2024-02-29,29.02.2024,1709164800000\n"
                  "2024-12-30T23:59:58.5+01:00,30.12.2024,0\n"
                  "1969-12-31 23:59,31.12.1969,-1000\n"
                  "2021-01-03T00:00:00Z,03.01.2021,1609632000000\n");
  const auto with = [&](std::string_view column,
                        std::initializer_list<std::pair<std::string_view, v1::ConfigValue>> a) {
    v1::DatasetSpec spec = CsvSpec(directory / "d.csv");
    AddTransform(&spec, column, ClassOf("Date", a), "out");
    return Numbers(spec, "out");
  };
  const auto parts = [](std::vector<std::string> names) { return ConfigOf(names); };
  CHECK(with("when", {}) == std::vector<double>{1709164800, 1735599598.5, -60, 1609632000});
  CHECK(with("when", {{"parts", parts({"year", "month", "day", "hour"})}}) ==
        std::vector<double>{2024, 2, 29, 0, 2024, 12, 30, 22, 1969, 12, 31, 23, 2021, 1, 3, 0});
  CHECK(with("when", {{"parts", parts({"weekday", "day_of_year", "week", "quarter"})}}) ==
        std::vector<double>{3, 60, 9, 1, 0, 365, 1, 4, 2, 365, 1, 4, 6, 3, 53, 1});
  CHECK(with("when", {{"parts", parts({"minute"})}}) == std::vector<double>{0, 59, 59, 0});
  CHECK(with("day", {{"format", ConfigOf("%d.%m.%Y")}}) ==
        std::vector<double>{1709164800, 1735516800, -86400, 1609632000});
  CHECK(with("stamp", {{"unit", ConfigOf("ms")}, {"parts", parts({"day", "second"})}}) ==
        std::vector<double>{29, 0, 1, 0, 31, 59, 3, 0});
}

TEST_CASE("a missing or malformed date is an error with its place") {
  const testing::TestDirectory directory;
  directory.Write("d.csv", "x,when\n1,2024-01-01\n2,\n3,2024-01-02\n");
  directory.Write("d.jsonl", "{\"when\": \"2024-01-01\"}\n{\"when\": \"2024-02-30\"}\n");
  v1::DatasetSpec spec = CsvSpec(directory / "d.csv");
  AddTransform(&spec, "when", ClassOf("Date", {}));
  CHECK(Contains(OpenError(spec),
                 "d.csv: line 3: column \"when\": the date is missing; `missing` of Date would"));
  (*spec.mutable_transforms(0)->mutable_transform_class()->mutable_config())["missing"] =
      ConfigOf(-1.0);
  CHECK(Numbers(spec, "when") == std::vector<double>{1704067200, -1, 1704153600});
  v1::DatasetSpec lines = JsonSpec(directory / "d.jsonl");
  AddTransform(&lines, "when", ClassOf("Date", {}));
  CHECK(Contains(OpenError(lines), "d.jsonl: line 2: column \"when\": \"2024-02-30\" is no date"));
  const auto error = [&](std::initializer_list<std::pair<std::string_view, v1::ConfigValue>> a) {
    v1::DatasetSpec of = CsvSpec(directory / "d.csv");
    AddTransform(&of, "when", ClassOf("Date", a));
    return OpenError(of);
  };
  CHECK(Contains(error({{"parts", ConfigOf(std::vector<std::string>{"age"})}}),
                 "there is no part \"age\"; there are seconds, year, "));
  CHECK(Contains(error({{"format", ConfigOf("%d.%m.%Y")}}),
                 "line 2: column \"when\": \"2024-01-01\" is no date of the format"));
}

TEST_CASE("cells of a CSV file may be lists of different lengths") {
  const auto lists = [](std::initializer_list<std::pair<std::string_view, v1::ClassConfig>> of) {
    v1::ConfigValue value;
    for (const auto& [name, config] : of) {
      (*value.mutable_object()->mutable_config())[std::string(name)] = ConfigOf(config);
    }
    return value;
  };
  const auto spec_of = [&](const v1::ClassConfig& tags, const v1::ClassConfig& scores) {
    v1::DatasetSpec spec = CsvSpec(Tables() / "t.csv");
    (*spec.mutable_source_class()->mutable_config())["lists"] =
        lists({{"tags", tags}, {"scores", scores}});
    return spec;
  };
  const auto tags = ClassOf("words", {{"length", ConfigOf(int64_t{3})}});
  const auto scores = ClassOf("numbers", {{"length", ConfigOf(int64_t{2})},
                                          {"separator", ConfigOf(";")},
                                          {"pad_with", ConfigOf(-1.0)},
                                          {"truncate", ConfigOf(true)}});
  v1::DatasetSpec spec = spec_of(tags, scores);
  v1::ClassConfig lookup = testing::Lookup({"a", "b", "c"});
  (*lookup.mutable_config())["mask_token"] = ConfigOf("");
  AddTransform(&spec, "tags", lookup);
  CHECK(Numbers(spec, "tags") == std::vector<double>{2, 3, 0, 3, 0, 0, 0, 0, 0, 4, 2, 3, 2, 0, 0});
  CHECK(Numbers(spec, "scores") == std::vector<double>{1, 2, 3, -1, -1, -1, 4, 5, 7, 8});
  auto strict = scores;
  strict.mutable_config()->erase("truncate");
  CHECK(Contains(OpenError(spec_of(tags, strict)),
                 "t.csv: line 5: column \"scores\": has 3 numbers, and the shape [2] needs 2"));
  auto other = scores;
  (*other.mutable_config())["separator"] = ConfigOf("/");
  CHECK(Contains(OpenError(spec_of(tags, other)),
                 "t.csv: line 2: column \"scores\": \"1;2\" is not a number"));
  (*other.mutable_config())["separator"] = ConfigOf(",");
  CHECK(Contains(OpenError(spec_of(tags, other)), "separator must be one character other than"));
  spec = CsvSpec(Tables() / "t.csv");
  (*spec.mutable_source_class()->mutable_config())["lists"] = lists({{"tag", tags}});
  CHECK(Contains(OpenError(spec), "has no column \"tag\" of `lists`; it has "));
}

}  // namespace
}  // namespace cohort
