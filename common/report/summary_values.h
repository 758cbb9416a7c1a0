#ifndef COHORT_COMMON_REPORT_SUMMARY_VALUES_H_
#define COHORT_COMMON_REPORT_SUMMARY_VALUES_H_

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cohort {

// What TensorBoard's plugins read besides scalars, as the bytes of tensorflow.Summary.Value
// (tensorflow/core/framework/summary.proto) and tensorflow.GraphDef.

// The distribution of numbers in buckets of one width, as tf.summary.histogram has it. Two passes:
// AddRange sees all numbers before the first Add.
class Histogram {
 public:
  static constexpr size_t kBuckets = 30;

  // Numbers that are not finite do not count.
  void AddRange(double value);
  void Add(double value);

  double min() const { return min_; }
  double max() const { return max_; }
  const std::array<double, kBuckets>& counts() const { return counts_; }

 private:
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
  std::array<double, kBuckets> counts_ = {};
};
std::string HistogramValue(const std::string& tag, const Histogram& histogram);

// A layer of a model in the graph that TensorBoard shows.
struct GraphNode {
  std::string name;
  std::string op;  // the class
  std::vector<std::string> inputs;
  std::string device;
  std::vector<int64_t> dims;  // the shape of the output, without the batch
  int64_t params = 0;
};
std::string GraphDefOf(const std::vector<GraphNode>& nodes);

// The hyper-parameters of a run, for the plugin hparams: its begin, and its end with success.
using Hparam = std::variant<double, bool, std::string>;
std::string HparamsBegin(const std::map<std::string, Hparam>& hparams, double unix_seconds);
std::string HparamsEnd(double unix_seconds);

}  // namespace cohort

#endif  // COHORT_COMMON_REPORT_SUMMARY_VALUES_H_
