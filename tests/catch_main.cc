// The one translation unit that compiles Catch2's runner.
#if defined(NDEBUG) && defined(__has_feature)  // clang's; it builds the sanitizers' trees
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#error "a sanitizer's tree keeps its assertions: nothing else that CI runs has them"
#endif
#endif

#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "common/base/denormals.h"

int main(int argc, char** argv) {
  cohort::FlushDenormals();  // as every program does
  return Catch::Session().run(argc, argv);
}
