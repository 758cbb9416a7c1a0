#include "common/model/keras_json/keras_patterns.h"

#include "common/base/printable.h"
#include "common/base/status.h"

namespace cohort {
namespace {

constexpr size_t kMostPatterns = 1000;
constexpr int kMostGroups = 16;  // inside each other

using Patterns = std::vector<std::string>;

class RegexReader {
 public:
  explicit RegexReader(std::string_view text) : text_(text) {}

  absl::StatusOr<Patterns> Read() {
    COHORT_ASSIGN_OR_RETURN(Patterns patterns, Alternatives());
    if (at_ < text_.size()) return Refuse();
    return patterns;
  }

 private:
  absl::Status Refuse() const {
    return Unimplemented(
        "the regular expression \"{}\" has a part at character {} that Cohort does not read; write "
        "`compile.optimizers` in the job instead",
        PrintableLine(text_), at_ + 1);
  }
  bool Next(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  // a|b|c, up to the end or a closing parenthesis.
  absl::StatusOr<Patterns> Alternatives() {
    Patterns all;
    do {
      COHORT_ASSIGN_OR_RETURN(const Patterns one, Sequence());
      all.insert(all.end(), one.begin(), one.end());
      if (all.size() > kMostPatterns) return Refuse();
    } while (Next("|"));
    return all;
  }

  absl::StatusOr<Patterns> Sequence() {
    Patterns patterns = {""};
    while (at_ < text_.size() && text_[at_] != '|' && text_[at_] != ')') {
      COHORT_ASSIGN_OR_RETURN(const Patterns ends, Part());
      Patterns longer;
      for (const std::string& begin : patterns) {
        for (const std::string& end : ends) longer.push_back(begin + end);
      }
      if (longer.size() > kMostPatterns) return Refuse();
      patterns.swap(longer);
    }
    return patterns;
  }

  absl::StatusOr<Patterns> Part() {
    if (Next("(?:") || Next("(")) {
      if (++groups_ > kMostGroups) return Refuse();
      COHORT_ASSIGN_OR_RETURN(Patterns inside, Alternatives());
      --groups_;
      if (!Next(")") || IsRepeated()) return Refuse();
      return inside;
    }
    if (Next(".*")) return IsRepeated() ? absl::StatusOr<Patterns>(Refuse()) : Patterns{"*"};
    if (Next(".+")) return IsRepeated() ? absl::StatusOr<Patterns>(Refuse()) : Patterns{"?*"};
    std::string one;
    if (Next(".")) {
      one = "?";
    } else if (text_[at_] == '[') {
      const size_t end = text_.find(']', at_);
      const std::string_view set =
          end == text_.npos ? std::string_view() : text_.substr(at_ + 1, end - at_ - 1);
      if (set.empty() || set == "^" || set.find_first_of("\\[") != set.npos) return Refuse();
      one = set[0] == '^' ? fmt::format("[!{}]", set.substr(1)) : fmt::format("[{}]", set);
      at_ = end + 1;
    } else {
      COHORT_ASSIGN_OR_RETURN(one, Character());
    }
    if (IsRepeated()) return Refuse();
    return Patterns{one};
  }

  absl::StatusOr<std::string> Character() {
    char c = text_[at_];
    if (c == '\\') {
      // \d, \w and others are sets.
      if (at_ + 1 >= text_.size() || std::isalnum(static_cast<unsigned char>(text_[at_ + 1]))) {
        return Refuse();
      }
      c = text_[++at_];
    } else if (std::string_view("^$*+?{}").find(c) != std::string_view::npos) {
      return Refuse();
    }
    ++at_;
    const bool is_special = std::string_view("*?[\\").find(c) != std::string_view::npos;
    return is_special ? fmt::format("\\{}", c) : std::string(1, c);
  }

  bool IsRepeated() const {
    return at_ < text_.size() &&
           std::string_view("*+?{").find(text_[at_]) != std::string_view::npos;
  }

  const std::string_view text_;
  size_t at_ = 0;
  int groups_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> PatternsOfRegex(std::string_view regex) {
  return RegexReader(regex).Read();
}

}  // namespace cohort
