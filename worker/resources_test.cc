#include "worker/resources.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/schema/class_registry.h"
#include "common/testing/test_directory.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::TestDirectory;

v1::CreateResource Csv() {
  v1::CreateResource resource;
  resource.set_name("train");
  resource.set_visitation(v1::EXACTLY_ONCE);
  resource.set_batch_size(2);
  *resource.mutable_dataset()->mutable_source_class() =
      ClassOf("csv", {{"path", ConfigOf(std::string_view("a.csv"))}});
  resource.add_features("a");
  return resource;
}

TEST_CASE("a recreated reader begins elsewhere in the open dataset") {
  const testing::TestDirectory directory;
  const std::string path = directory.Write("numbers.csv", "x\n0\n1\n2\n3\n4\n");
  v1::CreateResource spec;
  spec.set_name("train");
  spec.set_visitation(v1::INDEPENDENT);
  spec.set_batch_size(2);
  spec.add_features("x");
  *spec.mutable_dataset()->mutable_source_class() = ClassOf("csv", {{"path", ConfigOf(path)}});
  Resources resources{DataOptions{}};
  const auto next = [&](uint64_t timeline, uint64_t batches) {
    ReadPosition read;
    const auto batch = resources.Next("train", nullptr, &read);
    INFO(batch.status());
    REQUIRE(batch.ok());
    CHECK(read.timeline == timeline);
    CHECK(read.batches == batches);
    return (*batch)->tensors[0].values<float>()[0];
  };
  spec.set_timeline(1);
  REQUIRE(resources.Create(spec).ok());
  CHECK(next(1, 1) == 0);
  CHECK(next(1, 2) == 2);
  std::filesystem::remove(path);
  spec.set_begin(4);
  spec.set_timeline(2);
  const absl::Status made = resources.Create(spec);
  INFO(made);
  REQUIRE(made.ok());
  CHECK(next(2, 5) == 2);  // the second batch of the second epoch
  CHECK(next(2, 6) == 4);
  CHECK(next(2, 7) == 0);
  // Another dataset is opened.
  spec.mutable_dataset()->set_take(3);
  CHECK(absl::IsNotFound(resources.Create(spec)));
  resources.Clear();
  CHECK(absl::IsNotFound(resources.Create(spec)));
}

TEST_CASE("a dataset that the chief has not read is refused, and nothing is said without a chief") {
  const TestDirectory chief;
  const TestDirectory here;
  chief.Write("a.csv", "a\n1\n2\n3\n4\n");
  v1::CreateResource resource = Csv();
  const auto read = Dataset::Open(resource.dataset(), {.data_dir = chief.path()});
  REQUIRE(read.ok());
  *resource.mutable_data() = (*read)->fingerprint();
  const auto create = [&] { return Resources({.data_dir = here.path()}).Create(resource); };
  here.Write("a.csv", "a\n1\n2\n3\n4\n");
  CHECK(create().ok());

  for (const char* rows : {"a\n1\n2\n3\n5\n", "a\n1\n2\n3\n4\n5\n", "a\n1\n2\n"}) {
    here.Write("a.csv", rows);
    const absl::Status refused = create();
    INFO(refused.ToString());
    CHECK(absl::IsInvalidArgument(refused));
    for (const std::string& part :
         {std::string("resource 'train': a.csv has other contents ("), std::string(" at the chief"),
          "(COHORT_DATA_DIR is " + here.path() + " here)"}) {
      CHECK(Contains(refused.ToString(), part));
    }
  }
  // One that is open is opened again where it is no longer what the chief has read.
  Resources resources({.data_dir = here.path()});
  v1::CreateResource other = resource;
  other.clear_data();
  CHECK(resources.Create(other).ok());
  here.Write("a.csv", "a\n1\n2\n3\n4\n");
  CHECK(resources.Create(resource).ok());
  resource.clear_data();
  CHECK(create().ok());
}

}  // namespace
}  // namespace cohort
