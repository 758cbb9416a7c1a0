#include "common/collective/local_group.h"

#include <cstring>
#include <numeric>
#include <thread>

#include "common/base/status.h"
#include "common/testing/status_message.h"
#include "common/testing/test_time.h"

namespace cohort {
namespace {

std::vector<std::unique_ptr<Collective>> Ranks(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("cpu:" + std::to_string(i));
  return LocalGroup::Create(names);
}

// Runs `body(rank)` on a thread for each rank.
template <typename Body>
void OnThreads(int ranks, const Body& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

template <typename T>
T ValueOf(int rank, size_t i) {
  return static_cast<T>(i % 97) / static_cast<T>(7) + static_cast<T>(rank) / static_cast<T>(3);
}

TEMPLATE_TEST_CASE("threads reduce, gather and all-reduce in place", "", float, double) {
  using T = TestType;
  for (const int ranks : {1, 2, 3, 4, 7}) {
    auto group = Ranks(ranks);
    uint64_t step = 0;
    for (const size_t elements : {size_t{0}, size_t{1}, size_t{101}, size_t{100'003}}) {
      std::vector<T> expected(elements);
      for (size_t i = 0; i < elements; ++i) {
        expected[i] = ValueOf<T>(0, i);
        for (int rank = 1; rank < ranks; ++rank) expected[i] += ValueOf<T>(rank, i);
      }
      std::vector<std::vector<T>> reduced(static_cast<size_t>(ranks)), scattered = reduced;
      std::vector<absl::Status> status(static_cast<size_t>(ranks));
      ++step;
      OnThreads(ranks, [&](int rank) {
        const size_t own = static_cast<size_t>(rank);
        std::vector<T>& a = reduced[own];
        std::vector<T>& b = scattered[own];
        for (size_t i = 0; i < elements; ++i) a.push_back(ValueOf<T>(rank, i));
        b = a;
        status[own].Update(group[own]->AllReduce(std::span(a), {step, 1, 0}));
        status[own].Update(group[own]->ReduceScatter(std::span(b), {step, 1, 0}));
        status[own].Update(group[own]->AllGather(std::span(b), {step, 1, 0}));
      });
      for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank) {
        CHECK(status[rank].ok());
        if (elements == 0) continue;
        CHECK(std::memcmp(reduced[rank].data(), expected.data(), elements * sizeof(T)) == 0);
        CHECK(std::memcmp(scattered[rank].data(), expected.data(), elements * sizeof(T)) == 0);
      }
    }
  }
}

TEST_CASE("threads sum in the order of places, and wait in any order") {
  constexpr size_t kElements = 10'001;
  auto group = Ranks(2);
  const int order[] = {1, 0, 1};
  std::vector<std::vector<float>> place(3, std::vector<float>(kElements));
  for (size_t p = 0; p < 3; ++p) {
    for (size_t i = 0; i < kElements; ++i) place[p][i] = ValueOf<float>(static_cast<int>(p), i);
  }
  std::vector<float> expected = place[0];
  for (size_t p = 1; p < 3; ++p) {
    for (size_t i = 0; i < kElements; ++i) expected[i] += place[p][i];
  }
  std::vector<std::vector<float>> out(2, std::vector<float>(kElements)), second = out;
  std::vector<absl::Status> status(2);
  OnThreads(2, [&](int rank) {
    const size_t own = static_cast<size_t>(rank);
    std::vector<ElementSpan> contributions;
    for (size_t p = 0; p < 3; ++p) {
      if (order[p] == rank) contributions.push_back(std::span(place[p]));
    }
    std::vector<Collective::Ticket> tickets;
    for (uint32_t bucket = 0; bucket < 2; ++bucket) {
      const auto ticket =
          group[own]->Start({.kind = CollectiveKind::kAllReduce,
                             .name = {1, 1, bucket},
                             .buffer = std::span(bucket == 0 ? out[own] : second[own]),
                             .order = order,
                             .contributions = contributions});
      status[own].Update(ticket.status());
      tickets.push_back(ticket.value_or(0));
    }
    if (rank == 1) std::swap(tickets[0], tickets[1]);
    for (const auto ticket : tickets) status[own].Update(group[own]->Wait(ticket));
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(status[rank].ok());
    CHECK(out[rank] == expected);
    CHECK(second[rank] == expected);
  }
}

TEST_CASE("a thread that does not come is named within the deadline") {
  auto group = Ranks(3);
  std::vector<std::vector<float>> buffers(3, std::vector<float>(100));
  std::vector<absl::Status> status(3);
  OnThreads(2, [&](int rank) {
    const size_t own = static_cast<size_t>(rank);
    status[own] = group[own]->Run({.name = {1, 1, 0},
                                   .buffer = std::span(buffers[own]),
                                   .deadline = std::chrono::milliseconds(100)});
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(absl::IsDeadlineExceeded(status[rank]));
    CHECK_THAT(testing::Message(status[rank]), Catch::Contains("rank 2, cpu:2"));
    REQUIRE(GetFailure(status[rank]).has_value());
    CHECK(GetFailure(status[rank])->index == 2);
  }
  // The group has failed.
  CHECK(absl::IsDeadlineExceeded(group[2]->AllReduce(std::span(buffers[2]), {1, 1, 0})));
}

TEST_CASE("a thread that leaves fails those that wait for it") {
  auto group = Ranks(2);
  std::vector<float> buffer(10), other(10);
  const auto ticket = group[0]->Start({.name = {1, 1, 0}, .buffer = std::span(buffer)});
  REQUIRE(ticket.ok());
  group[1].reset();
  const absl::Status status = group[0]->Wait(*ticket);
  CHECK(absl::IsUnavailable(status));
  CHECK(GetFailure(status)->index == 1);
}

TEST_CASE("an abandoned try ends, and the next one works") {
  auto group = Ranks(2);
  std::vector<float> a(10, 1), b(10, 2);
  const auto ticket = group[0]->Start({.name = {5, 1, 0}, .buffer = std::span(a)});
  REQUIRE(ticket.ok());
  group[0]->Abandon(5, 1);
  CHECK(absl::IsCancelled(group[0]->Wait(*ticket)));
  CHECK(absl::IsFailedPrecondition(
      group[1]->Start({.name = {5, 1, 0}, .buffer = std::span(b)}).status()));
  std::vector<absl::Status> status(2);
  OnThreads(2, [&](int rank) {
    status[static_cast<size_t>(rank)] =
        group[static_cast<size_t>(rank)]->AllReduce(std::span(rank == 0 ? a : b), {5, 2, 0});
  });
  CHECK(status[0].ok());
  CHECK(status[1].ok());
  CHECK(a == std::vector<float>(10, 3));
  CHECK(b == a);
}

TEST_CASE("ranks with different arguments get an error") {
  auto group = Ranks(2);
  std::vector<float> a(10), b(11);
  REQUIRE(group[0]->Start({.name = {1, 1, 0}, .buffer = std::span(a)}).ok());
  CHECK(absl::IsInvalidArgument(
      group[1]->Start({.name = {1, 1, 0}, .buffer = std::span(b)}).status()));
  CHECK(
      absl::IsAlreadyExists(group[0]->Start({.name = {1, 1, 0}, .buffer = std::span(a)}).status()));
  CHECK(absl::IsInvalidArgument(group[0]->Wait(99)));
}

}  // namespace
}  // namespace cohort
