#ifndef COHORT_COMMON_BASE_PRINTABLE_H_
#define COHORT_COMMON_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace cohort {

// What a text of UTF-8 begins with.
struct Character {
  char32_t code = 0;  // the byte, where there is no character
  size_t bytes = 1;
  bool valid = false;

  // False for what a terminal obeys: control characters (newline and tab among them), and those
  // that turn the direction of a line around. False for a byte that is no character.
  bool printable() const;
};

// `text` is not empty.
Character FirstCharacter(std::string_view text);

// For people, on a terminal: what is not printable is escaped, but for newlines and tabs, as in
// "\x1b[2J" (a control character, or a byte that is no UTF-8) and "\u202e".
std::string Printable(std::string_view text);
// The same of what must not break a line, a name: newlines and tabs are escaped too.
std::string PrintableLine(std::string_view text);

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_PRINTABLE_H_
