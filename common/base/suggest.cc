#include "common/base/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace cohort {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

template <typename Names>
std::string_view Nearest(std::string_view name, const Names& known) {
  const std::string wanted = Lower(name);
  std::string_view best;
  size_t best_distance = SIZE_MAX;
  for (const auto& candidate : known) {
    const size_t distance = EditDistance(wanted, Lower(candidate));
    const size_t limit = std::max<size_t>(1, std::max(name.size(), candidate.size()) / 3);
    if (distance <= limit && distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string Question(std::string_view nearest) {
  return nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  // Three rows of the table are enough: a swap looks two rows back.
  std::vector<size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, previous);
    std::swap(previous, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string DidYouMean(std::string_view name, std::span<const std::string_view> known) {
  return Question(Nearest(name, known));
}

std::string DidYouMean(std::string_view name, std::span<const std::string> known) {
  return Question(Nearest(name, known));
}

}  // namespace cohort
