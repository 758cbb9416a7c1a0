#include "common/base/printable.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

TEST_CASE("control characters for a terminal are escaped") {
  CHECK(Printable("").empty());
  CHECK(Printable("two\n\tlines") == "two\n\tlines");
  CHECK(Printable("\x1b[2Ja\rb\x7f\a") == R"(\x1b[2Ja\x0db\x7f\x07)");
  CHECK(Printable(std::string_view("a\0b", 3)) == R"(a\x00b)");
  CHECK(Printable("\xc2\x9b"
                  "31m") == R"(\u009b31m)");
  CHECK(Printable("a\xe2\x80\xae"
                  "b\xe2\x81\xa6") == R"(a\u202eb\u2066)");
}

TEST_CASE("PrintableLine escapes line breaks") {
  CHECK(Printable("a\n\tb") == "a\n\tb");
  CHECK(PrintableLine("a\n\tb\x1b") == R"(a\x0a\x09b\x1b)");
}

TEST_CASE("UTF-8 stays, and other bytes are escaped") {
  for (const char* text : {"Größe", "日本", "𝄞", "\xf4\x8f\xbf\xbf", "\xc2\xa0", "é"}) {
    CHECK(Printable(text) == text);
  }
  CHECK(Printable("\x9b"
                  "31m") == R"(\x9b31m)");
  CHECK(Printable("\xc3") == R"(\xc3)");
  CHECK(Printable("\xc3(") == R"(\xc3()");
  CHECK(Printable("\xc0\x9b") == R"(\xc0\x9b)");  // longer than needed
  CHECK(Printable("\xe0\x82\x9b") == R"(\xe0\x82\x9b)");
  CHECK(Printable("\xed\xa0\x80") == R"(\xed\xa0\x80)");          // a surrogate
  CHECK(Printable("\xf4\x90\x80\x80") == R"(\xf4\x90\x80\x80)");  // beyond the last code
  CHECK(Printable("\xff\xfe") == R"(\xff\xfe)");
}

TEST_CASE("the first byte that is not UTF-8 is found") {
  CHECK(IsUtf8(""));
  CHECK(
      IsUtf8("Gr\xc3\xb6\xc3\x9f"
             "e"));
  CHECK(FindInvalidUtf8("ab\xe9") == 2);
  CHECK(FindInvalidUtf8("\xc3\xb6\xc3") == 2);
}

}  // namespace
}  // namespace cohort
