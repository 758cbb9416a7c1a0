// One rank on the first GPU: a machine with one GPU can show no more.
#include "common/collective/nccl_group.h"

#include <catch2/catch.hpp>
#include <vector>

#include "common/device/device.h"

namespace cohort {
namespace {

TEST_CASE("a group of one rank keeps the values of its buffer in every operation") {
  const auto device = OpenDevice("cuda:0");
  INFO(device.status());
  REQUIRE(device.ok());
  const auto id = NcclGroup::NewId();
  INFO(id.status());
  REQUIRE(id.ok());
  const auto group = NcclGroup::Start({.rank = 0, .ranks = 1, .id = *id, .device = 0});
  INFO(group.status());
  REQUIRE(group.ok());
  std::vector<float> values(1000), found(values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 7;
  const size_t bytes = values.size() * sizeof(float);
  const auto memory = (*device)->Allocate(bytes, "a test");
  REQUIRE(memory.ok());
  uint32_t bucket = 0;
  for (const CollectiveKind kind :
       {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather, CollectiveKind::kAllReduce}) {
    REQUIRE((*device)->CopyToDevice(memory->data(), values.data(), bytes).ok());
    const auto ticket =
        (*group)->Start({.kind = kind,
                         .name = {.step = 1, .step_try = 1, .bucket = bucket++},
                         .buffer = ElementSpan(DType::kFloat32, memory->data(), values.size())});
    INFO(ticket.status());
    REQUIRE(ticket.ok());
    const absl::Status ended = (*group)->Wait(*ticket);
    INFO(ended);
    REQUIRE(ended.ok());
    REQUIRE((*device)->CopyToHost(found.data(), memory->data(), bytes).ok());
    CHECK(found == values);
  }
  CHECK((*group)->counters().operations == 3);
}

}  // namespace
}  // namespace cohort
