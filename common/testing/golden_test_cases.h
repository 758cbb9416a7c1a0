#ifndef COHORT_COMMON_TESTING_GOLDEN_TEST_CASES_H_
#define COHORT_COMMON_TESTING_GOLDEN_TEST_CASES_H_

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort::testing {

// What a test observes, by the name of the case.
using GoldenCases = std::vector<std::pair<std::string, std::string>>;

// One line of a golden file.
inline std::string GoldenLine(std::string_view text) {
  std::string line;
  for (const char c : text) line += c == '\n' ? "\\n" : std::string(1, c);
  return line;
}

// Compares what a test observed with a golden file of the source tree. Returns the cases that
// differ, or "". With COHORT_UPDATE_GOLDEN=1 it writes the file and returns "".
//
//   name of a case
//       what the test observed, in one line
inline std::string DifferenceFromGolden(const std::string& path, const GoldenCases& observed) {
  const char* const source = std::getenv("COHORT_SOURCE_DIR");
  const std::string file = std::string(source != nullptr ? source : ".") + "/" + path;
  const char* const update = std::getenv("COHORT_UPDATE_GOLDEN");
  if (update != nullptr && std::string_view(update) == "1") {
    std::ofstream out(file, std::ios::trunc);
    for (const auto& [name, text] : observed) {
      out << GoldenLine(name) << "\n    " << GoldenLine(text) << '\n';
    }
    return out.flush().good() ? "" : file + ": cannot be written";
  }
  std::map<std::string, std::string> expected;
  std::ifstream in(file);
  for (std::string name, text; std::getline(in, name) && std::getline(in, text);) {
    expected[name] = text.substr(std::min<size_t>(4, text.size()));
  }
  std::string difference;
  for (const auto& [name, text] : observed) {
    const auto found = expected.find(GoldenLine(name));
    if (found == expected.end()) {
      difference += GoldenLine(name) + "\n  + " + GoldenLine(text) + '\n';
      continue;
    }
    if (found->second != GoldenLine(text)) {
      difference += found->first + "\n  - " + found->second + "\n  + " + GoldenLine(text) + '\n';
    }
    expected.erase(found);
  }
  for (const auto& [name, text] : expected) difference += name + "\n  - " + text + '\n';
  if (difference.empty()) return "";
  return path + " differs (-: the file, +: the test). COHORT_UPDATE_GOLDEN=1 writes it.\n" +
         difference;
}

}  // namespace cohort::testing

#endif  // COHORT_COMMON_TESTING_GOLDEN_TEST_CASES_H_
