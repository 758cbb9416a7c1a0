// The log of a tablet, as its stream sees it.
#include "ps_server/copies/copy_log.h"

#include <catch2/catch.hpp>
#include <functional>

#include "common/base/clock_test_util.h"
#include "common/tablet/tablet_test_util.h"
#include "ps_server/copies/fill_rate.h"

namespace cohort::ps_test {
namespace {

constexpr int64_t kElements = 1024;
constexpr size_t kPieceBytes = 64;

// A stream that keeps what is sent.
struct Recorder : CopySink {
  void Send(const std::shared_ptr<const CopyLogEntry>& entry) override {
    sent.push_back(entry);
    bytes += entry->bytes;
    if (on_send) on_send();
  }
  void FlushSoon() override { ++flushes_asked; }

  std::vector<uint64_t> numbers() const {
    std::vector<uint64_t> all;
    for (const auto& entry : sent) all.push_back(entry->entry.number());
    return all;
  }

  std::vector<std::shared_ptr<const CopyLogEntry>> sent;
  size_t bytes = 0;
  int flushes_asked = 0;
  std::function<void()> on_send;
};

struct Log {
  explicit Log(bool fills, uint64_t bytes_per_second = 0)
      : rate(bytes_per_second, &clock),
        log(std::make_shared<CopyLog>(0, 1, 1, fills,
                                      CopyLog::Options{.pool = pool.get(),
                                                       .fill_rate = &rate,
                                                       .ended = [] {},
                                                       .complete = [](const CopyLog&) {}})) {}

  ManualClock clock;
  BufferPool::Handle pool = BufferPool::Create(size_t{1} << 20);
  FillRate rate;
  std::shared_ptr<CopyLog> log;
};

TEST_CASE("a fill has the bytes per second that it may have, and no more") {
  constexpr uint64_t kRate = 1000;
  Log filled(/*fills=*/true, kRate);
  TestTablet tablet(Layout({Variable("w", {kElements}, 1)}, Sgd(1)), kPieceBytes);
  REQUIRE(tablet->BeginLog(filled.log, 0).ok());
  const auto stream = std::make_shared<Recorder>();
  filled.log->OnOpen(stream);
  const size_t all = kElements * sizeof(float);
  for (int tick = 0; stream->bytes < all; ++tick) {
    INFO(tick);
    const auto due = static_cast<size_t>(tick * kRate / 10);
    REQUIRE(stream->bytes >= std::min(due, all));
    REQUIRE(stream->bytes <= due + kRate / 10 + kPieceBytes);
    // A copy that waits for this end is not silent.
    filled.log->OnAck(0, stream->sent.size());
    CHECK(filled.log->idle());
    filled.clock.Advance(std::chrono::milliseconds(100));
    filled.log->Flush();
  }
  CHECK(filled.log->is_partial());
  for (int i = 0; i < 2; ++i) {
    filled.clock.Advance(std::chrono::milliseconds(100));
    filled.log->Flush();
  }
  CHECK(stream->sent.back()->entry.state().has_cut());
  filled.log->OnAck(0, stream->sent.size());
  CHECK(filled.log->is_complete());
}

TEST_CASE("a fill without a limit is sent at once, and its tail behind it") {
  Log filled(/*fills=*/true);
  TestTablet tablet(Layout({Variable("w", {kElements}, 1)}, Sgd(1)), kPieceBytes);
  REQUIRE(tablet->BeginLog(filled.log, 0).ok());
  filled.log->OnAbandon(7, 1);
  const auto stream = std::make_shared<Recorder>();
  filled.log->OnOpen(stream);
  CHECK(stream->bytes == kElements * sizeof(float));
  REQUIRE(stream->sent.size() > 2);
  CHECK(stream->sent[stream->sent.size() - 2]->entry.state().has_cut());
  CHECK(stream->sent.back()->entry.has_abandon());
}

TEST_CASE("entries that come while one is sent follow it, in their order") {
  Log pair(/*fills=*/false);
  const auto stream = std::make_shared<Recorder>();
  pair.log->OnOpen(stream);
  stream->on_send = [&] {
    if (stream->sent.size() > 2) return;
    pair.log->OnAbandon(2, 1);
    const size_t before = stream->sent.size();
    pair.log->Flush();  // as another thread that has pushed
    CHECK(stream->sent.size() == before);
  };
  pair.log->OnAbandon(1, 1);
  CHECK(stream->sent.empty());
  CHECK(stream->flushes_asked == 1);
  pair.log->Flush();
  CHECK(stream->numbers() == std::vector<uint64_t>{1, 2, 3});
}

TEST_CASE("a stream that opens while another thread sends gets what is not acknowledged") {
  Log pair(/*fills=*/false);
  const auto first = std::make_shared<Recorder>();
  const auto second = std::make_shared<Recorder>();
  pair.log->OnOpen(first);
  for (int step = 1; step <= 4; ++step) pair.log->OnAbandon(static_cast<uint64_t>(step), 1);
  first->on_send = [&] {
    if (first->sent.size() != 3) return;
    pair.log->OnAck(1, 0);
    pair.log->OnClosed();
    pair.log->OnOpen(second);
    CHECK(second->sent.empty());
  };
  pair.log->Flush();
  CHECK(first->numbers() == std::vector<uint64_t>{1, 2, 3});
  CHECK(second->numbers() == std::vector<uint64_t>{2, 3, 4});
}

TEST_CASE("an acknowledgement makes room for what comes behind it") {
  Log pair(/*fills=*/false);
  const auto stream = std::make_shared<Recorder>();
  pair.log->OnOpen(stream);
  pair.log->OnAbandon(1, 1);
  pair.log->Flush();
  CHECK(pair.log->MayAnswer(1) == CopyLog::Answer::kWaits);
  pair.log->OnAbandon(2, 1);
  pair.log->OnAck(1, 0);
  CHECK(pair.log->MayAnswer(1) == CopyLog::Answer::kMay);
  CHECK(stream->numbers() == std::vector<uint64_t>{1, 2});
  pair.log->Void();
  CHECK(pair.log->MayAnswer(2) == CopyLog::Answer::kVoid);
}

}  // namespace
}  // namespace cohort::ps_test
