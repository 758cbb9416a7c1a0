#include "common/base/denormals.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <limits>
#include <thread>

#include "common/base/serial_thread.h"
#include "common/base/thread_pool.h"

namespace cohort {
namespace {

TEST_CASE("every thread flushes denormal numbers that one which does has started") {
  std::atomic<bool> inherited{false};
  std::thread parent([&] {  // so that the thread of the other tests keeps its mode
    FlushDenormals();
    REQUIRE(FlushesDenormals());
    volatile double least = std::numeric_limits<double>::min();
    CHECK(least / 2 == 0);
    std::thread([&] { std::thread([&] { inherited = FlushesDenormals(); }).join(); }).join();

    std::atomic<int> flushed{0}, items{0};
    ThreadPool pool(4, "pool");
    pool.ForEach(64, [&](size_t) {
      flushed += FlushesDenormals() ? 1 : 0;
      ++items;
    });
    CHECK(items == 64);
    CHECK(flushed == items);

    std::atomic<bool> serial{false};
    SerialThread thread("serial");
    thread.Post([&] { serial = FlushesDenormals(); });
    thread.Finish();
    CHECK(serial);
  });
  parent.join();
  CHECK(inherited);
}

}  // namespace
}  // namespace cohort
