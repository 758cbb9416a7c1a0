#include "deploy/launcher/generate_data.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/exit_code.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using Catch::Contains;

std::string ReadText(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_CASE("cohort generate writes the same file for a seed, in parts or at once") {
  testing::TestDirectory dir;
  GenerateOptions options = {.kind = "criteo", .records = 30, .output = dir.path() + "/all.csv"};
  options.bags = true;
  const auto text = GenerateData(options);
  REQUIRE(text.status().message() == "");
  CHECK_THAT(*text, Contains("all.csv: 30 records"));
  CHECK_THAT(*text, Contains("the hidden model reaches AUC 0."));
  const std::string all = ReadText(options.output);
  CHECK_THAT(all, Catch::StartsWith("label,I1,I2,I3,"));
  CHECK_THAT(all, Contains(",I13,C1,"));
  CHECK_THAT(all, Contains(",C26\n"));
  CHECK_THAT(all, Contains("|"));
  CHECK(std::count(all.begin(), all.end(), '\n') == 31);
  CHECK(std::count(all.begin(), all.end(), ',') == 31 * 39);
  CHECK_FALSE(std::filesystem::exists(options.output + ".part"));

  options.output = dir.path() + "/part.csv";
  options.records = 20;
  options.begin = 10;
  REQUIRE(GenerateData(options).ok());
  const std::string part = ReadText(options.output);
  const size_t header = part.find('\n') + 1;
  CHECK(all.substr(all.size() - (part.size() - header)) == part.substr(header));
}

TEST_CASE("cohort generate takes the sizes of tables") {
  testing::TestDirectory dir;
  GenerateOptions options = {.kind = "criteo", .records = 50, .output = dir.path() + "/a.csv"};
  options.vocabulary = "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1";
  REQUIRE(GenerateData(options).ok());
  std::istringstream lines(ReadText(options.output));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    REQUIRE_THAT(line, Catch::EndsWith(",0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"));
  }
}

TEST_CASE("a wrong command line of generate is refused") {
  testing::TestDirectory dir;
  const GenerateOptions right = {.kind = "criteo", .records = 5, .output = dir.path() + "/a.csv"};
  const auto error = [](const GenerateOptions& options) {
    const auto made = GenerateData(options);
    REQUIRE_FALSE(made.ok());
    CHECK(ExitCodeOf(made.status()) == ExitCode::kUsage);
    return std::string(made.status().message());
  };
  GenerateOptions wrong = right;
  wrong.kind = "movielens";
  CHECK_THAT(error(wrong), Contains("there is no \"movielens\"; there is criteo"));
  wrong = right;
  wrong.records = 0;
  CHECK_THAT(error(wrong), Contains("--records: say how many records"));
  wrong = right;
  wrong.output = "";
  CHECK_THAT(error(wrong), Contains("--output: name the file"));
  for (const char* vocabulary : {"0", "", "12,", "-3", "ten", "7,8"}) {
    wrong = right;
    wrong.vocabulary = vocabulary;
    CHECK_THAT(error(wrong), Contains("--vocabulary: "));
  }
  wrong = right;
  wrong.output = dir.path() + "/none/a.csv";
  const auto made = GenerateData(wrong);
  CHECK(ExitCodeOf(made.status()) == ExitCode::kCantCreate);
}

}  // namespace
}  // namespace cohort
