#include "worker/resources.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/data/data_test_files.h"
#include "common/data/data_test_specs.h"
#include "common/schema/class_registry.h"
#include "common/testing/directory_test_util.h"
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

TEST_CASE("a lease that another worker repeats has the same random images, evaluation has none") {
  const TestDirectory directory;
  std::string pixels;
  for (int i = 0; i < 64 * 3; ++i) pixels.push_back(static_cast<char>(i % 3));
  v1::CreateResource spec;
  spec.set_name("train");
  spec.set_visitation(v1::EXACTLY_ONCE);
  spec.set_batch_size(32);
  spec.set_seed(7);
  spec.set_training(true);
  spec.add_features("image");
  *spec.mutable_dataset() =
      testing::IdxSpec(directory.Write("images", testing::Idx(0x08, {64, 1, 3, 1}, pixels)));
  testing::AddTransform(spec.mutable_dataset(), "image", ClassOf("RandomFlip"));
  const auto read = [&](int threads, uint64_t epoch, uint64_t begin) {
    Resources resources({.threads = threads});
    REQUIRE(resources.Create(spec).ok());
    v1::Lease lease;
    lease.set_epoch(epoch);
    lease.set_begin(begin);
    lease.set_end(begin + 32);
    ReadPosition position;
    const auto batch = resources.Next("train", &lease, &position);
    INFO(batch.status());
    REQUIRE(batch.ok());
    const auto values = (*batch)->tensors[0].values<uint8_t>();
    return std::string(values.begin(), values.end());
  };
  const std::string first = read(1, 0, 0);
  spec.set_worker_index(1);
  CHECK(read(1, 0, 0) == first);
  CHECK(read(4, 0, 0) == first);
  CHECK(read(1, 1, 0) != first);
  CHECK(read(1, 0, 32) != first);
  spec.set_training(false);
  CHECK(read(1, 0, 0) == pixels.substr(0, 96));
}

}  // namespace
}  // namespace cohort
