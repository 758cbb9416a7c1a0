#ifndef COHORT_COMMON_BASE_PRINTABLE_H_
#define COHORT_COMMON_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace cohort {

// The first character of a UTF-8 text.
struct Character {
  char32_t code = 0;  // the byte, if it starts no valid character
  size_t bytes = 1;
  bool valid = false;

  // False for characters that a terminal obeys: control characters (including newline and tab) and
  // those that change the direction of text. Also false for a byte that is not a character.
  bool printable() const;
};

// `text` must not be empty.
Character FirstCharacter(std::string_view text);

// Returns the position of the first byte that starts no valid character; npos if all do.
size_t FindInvalidUtf8(std::string_view text);
// True for text that a `string` of Protocol Buffers can hold.
inline bool IsUtf8(std::string_view text) { return FindInvalidUtf8(text) == text.npos; }

// Escapes a text for a terminal. Unprintable characters except newline and tab become "\x1b[2J" (a
// control character, or a byte that is not UTF-8) or "\u202e".
std::string Printable(std::string_view text);
// The same for a name or another text that must stay on one line: newline and tab are escaped too.
std::string PrintableLine(std::string_view text);

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_PRINTABLE_H_
