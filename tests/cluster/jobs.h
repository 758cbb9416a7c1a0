#ifndef COHORT_TESTS_CLUSTER_JOBS_H_
#define COHORT_TESTS_CLUSTER_JOBS_H_

#include <string>

namespace cohort {

// A new empty directory under the system's temporary one, named after the test. It is removed at
// the end, unless COHORT_TEST_KEEP is set.
class ClusterDirectory {
 public:
  explicit ClusterDirectory(const std::string& name);
  ~ClusterDirectory();
  ClusterDirectory(const ClusterDirectory&) = delete;
  ClusterDirectory& operator=(const ClusterDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// The text of a job of deploy/examples, without the checksums of the real data. Its tasks read the
// files of GeneratedDataDir.
std::string ExampleJob(const std::string& file);

// The directory of the data sets that the build made (tests/data/make_data.py).
std::string GeneratedDataDir();

// The recommender, asynchronous, exactly-once data, `epochs` epochs of `records` records in batches
// of 32, a checkpoint every `checkpoint_steps` steps (0: one an epoch).
std::string RecommenderJob(int epochs, int checkpoint_steps, int records = 320);

// The same job with a validation set of other records.
std::string WithValidation(std::string job);

// A job for killing: epochs of 1,000 small steps, a checkpoint now and then.
std::string StormJob(int epochs, int checkpoint_steps = 500);

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_JOBS_H_
