#ifndef COHORT_TESTS_CLUSTER_TRAINED_WEIGHTS_H_
#define COHORT_TESTS_CLUSTER_TRAINED_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

// The bytes of every variable and slot, by their names.
using Weights = std::map<std::pair<std::string, std::string>, std::vector<uint8_t>>;

// Reads a checkpoint, by its directory. Fails the running test if it cannot be read.
Weights WeightsOf(const std::string& checkpoint);

// What a synchronous job has made.
struct TrainedWeights {
  Weights weights;
  uint64_t steps = 0;       // synchronous ones, over the whole job
  uint64_t iterations = 0;  // as optimizers count them
  double loss_scale = 0;    // after the last step; 0: none
};

// Reads the last checkpoint of a finished job. Fails the running test if there is none.
TrainedWeights TrainedWeightsOf(const std::string& checkpoint_dir);
// Fails the running test unless all bytes are equal.
void CheckSameWeights(const TrainedWeights& a, const TrainedWeights& b);
// Fails the running test unless all values differ by less than `most`. All must be of float64.
void CheckCloseWeights(const TrainedWeights& a, const TrainedWeights& b, double most);

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_TRAINED_WEIGHTS_H_
