#include "common/collective/choose.h"

#include "common/testing/status_message.h"

namespace cohort {
namespace {

CollectiveCall AllReduceOf(ElementSpan buffer, Communication communication) {
  return {.kind = CollectiveKind::kAllReduce, .buffer = buffer, .communication = communication};
}

TEST_CASE("names of communication, ours and TensorFlow's") {
  for (const auto communication :
       {Communication::kAuto, Communication::kRing, Communication::kDirect, Communication::kNccl}) {
    CHECK(CommunicationFromName(CommunicationName(communication)) == communication);
  }
  CHECK(CommunicationFromName("RING") == Communication::kRing);
  CHECK(CommunicationFromName("AUTO") == Communication::kAuto);
  CHECK(!CommunicationFromName("gossip").has_value());
}

TEST_CASE("auto chooses by size and number of ranks") {
  std::vector<float> memory(size_t{8} << 20);
  const auto choose = [&](size_t bytes, int ranks, Communication communication) {
    return ChooseAlgorithm(
        AllReduceOf(ElementSpan(DType::kFloat32, memory.data(), bytes / 4), communication), ranks);
  };
  CHECK(*choose(4096, 2, Communication::kAuto) == AlgorithmKind::kExchange);
  CHECK(*choose(4096, 2, Communication::kDirect) == AlgorithmKind::kExchange);
  CHECK(*choose(4096, 2, Communication::kRing) == AlgorithmKind::kRing);
  CHECK(*choose(4096, 64, Communication::kAuto) == AlgorithmKind::kDirect);
  CHECK(*choose(size_t{1} << 20, 4, Communication::kAuto) == AlgorithmKind::kDirect);
  CHECK(*choose(size_t{4} << 20, 4, Communication::kAuto) == AlgorithmKind::kRing);
  CHECK(*choose(size_t{16} << 20, 2, Communication::kAuto) == AlgorithmKind::kDirect);
  CHECK(*choose(size_t{1} << 20, 8, Communication::kAuto) == AlgorithmKind::kDirect);
  CHECK(*choose(size_t{16} << 20, 8, Communication::kAuto) == AlgorithmKind::kRing);
  CHECK(*choose(size_t{16} << 20, 8, Communication::kDirect) == AlgorithmKind::kDirect);
}

TEST_CASE("a ring does not keep the places of a rank apart") {
  std::vector<float> memory(size_t{1} << 20);
  CollectiveCall call = AllReduceOf(std::span(memory), Communication::kRing);
  const int order[] = {0, 1, 0, 1};
  const ElementSpan own[] = {std::span(memory), std::span(memory)};
  call.order = order;
  call.contributions = own;
  const absl::Status status = ChooseAlgorithm(call, 2).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(testing::Message(status), Catch::Contains("sum the places of a rank first"));
  call.communication = Communication::kAuto;
  CHECK(*ChooseAlgorithm(call, 2) == AlgorithmKind::kDirect);
}

TEST_CASE("nccl is refused with a sentence") {
  std::vector<float> memory(8);
  const absl::Status status =
      ChooseAlgorithm(AllReduceOf(std::span(memory), Communication::kNccl), 2).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK_THAT(testing::Message(status), Catch::Contains("communication: auto"));
}

TEST_CASE("a call that contradicts itself is refused") {
  std::vector<float> memory(8);
  std::vector<double> other(8);
  CollectiveCall call = AllReduceOf(std::span(memory), Communication::kAuto);
  CHECK(CheckCollectiveCall(call, 2, 0).ok());
  const int beyond[] = {0, 2};
  call.order = beyond;
  CHECK(absl::IsInvalidArgument(CheckCollectiveCall(call, 2, 0)));
  const int twice[] = {0, 1, 0};
  call.order = twice;
  CHECK(CheckCollectiveCall(call, 2, 1).ok());
  CHECK(absl::IsInvalidArgument(CheckCollectiveCall(call, 2, 0)));  // two places, one buffer
  const ElementSpan mixed[] = {std::span(memory), std::span(other)};
  call.contributions = mixed;
  CHECK(absl::IsInvalidArgument(CheckCollectiveCall(call, 2, 0)));
  std::vector<int32_t> numbers(8);
  call = AllReduceOf(ElementSpan(DType::kInt32, numbers.data(), 8), Communication::kAuto);
  CHECK(absl::IsInvalidArgument(CheckCollectiveCall(call, 2, 0)));
}

TEST_CASE("a ring is chosen for gradients if it saves many bytes") {
  constexpr uint64_t kMb = 1 << 20;
  CHECK(RingSavesBytes(32 * kMb, 4, 2));
  CHECK(!RingSavesBytes(31 * kMb, 4, 2));
  CHECK(!RingSavesBytes(1000 * kMb, 3, 2));  // one replica has one closure
  CHECK(!RingSavesBytes(1000 * kMb, 4, 4));
  CHECK(!RingSavesBytes(1000 * kMb, 8, 1));
  CHECK(RingSavesBytes(8 * kMb, 16, 4));
}

}  // namespace
}  // namespace cohort
