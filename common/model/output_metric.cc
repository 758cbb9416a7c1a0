#include "common/model/output_metric.h"

#include <utility>

namespace cohort {

void AddOutputMetric(v1::ClassConfig config, const std::string& given, const std::string& output,
                     v1::CompileSpec* compile) {
  const std::string name = given.empty() ? Config(config).String("name") : given;
  v1::MetricSpec* const metric = compile->add_metric_classes();
  metric->set_name(output.empty() ? name : output + "_" + name);
  metric->set_output(output);
  *metric->mutable_metric_class() = std::move(config);
}

}  // namespace cohort
