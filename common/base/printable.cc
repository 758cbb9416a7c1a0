#include "common/base/printable.h"

#include <fmt/format.h>

#include <iterator>

namespace cohort {
namespace {

// The length of a character that begins with this byte; 0 if no character does.
size_t LengthAfter(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  if (first < 0xe0) return 2;
  if (first < 0xf0) return 3;
  return first < 0xf5 ? 4 : 0;
}

// The smallest code that needs this many bytes.
constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};

}  // namespace

bool Character::printable() const {
  if (!valid || code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
  const bool turns = code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
                     (code >= 0x2066 && code <= 0x2069);
  return !turns;
}

Character FirstCharacter(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const Character none = {.code = first};
  const size_t bytes = LengthAfter(first);
  if (bytes == 0 || bytes > text.size()) return none;
  char32_t code = bytes == 1 ? first : first & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return none;
    code = code << 6 | (next & 0x3f);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[bytes] || surrogate || code > 0x10ffff) return none;
  return {.code = code, .bytes = bytes, .valid = true};
}

size_t FindInvalidUtf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Character next = FirstCharacter(text.substr(at));
    if (!next.valid) return at;
    at += next.bytes;
  }
  return text.npos;
}

namespace {

std::string Escape(std::string_view text, bool lines) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Character next = FirstCharacter(text);
    if (next.printable() || (lines && (next.code == '\n' || next.code == '\t'))) {
      shown += text.substr(0, next.bytes);
    } else if (next.valid && next.code >= 0x80) {
      fmt::format_to(std::back_inserter(shown), "\\u{:04x}", static_cast<uint32_t>(next.code));
    } else {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<uint32_t>(next.code));
    }
    text.remove_prefix(next.bytes);
  }
  return shown;
}

}  // namespace

std::string Printable(std::string_view text) { return Escape(text, /*lines=*/true); }

std::string PrintableLine(std::string_view text) { return Escape(text, /*lines=*/false); }

}  // namespace cohort
