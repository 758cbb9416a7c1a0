#include "common/model/job_defaults.h"

namespace cohort {

void SetJobDefaults(v1::JobSpec* job) {
  job->set_name("job");
  job->mutable_model()->set_dtype("float32");
  job->mutable_compile()->mutable_optimizer()->set_class_name("RMSprop");  // as Keras' compile
  v1::DataSpec* data = job->mutable_data();
  data->set_visitation(v1::EXACTLY_ONCE);
  data->set_batch_size(32);  // as Keras' fit
  data->set_block_size(1);
  v1::FitSpec* fit = job->mutable_fit();
  fit->set_epochs(1);
  fit->set_steps_per_execution(1);
  fit->set_validation_every_epochs(1);
  v1::StrategySpec* strategy = job->mutable_strategy();
  strategy->set_mode("async");
  strategy->set_placement("balanced");
  strategy->set_closures_in_flight(16);
  strategy->set_max_attempts(10);
  strategy->set_task_timeout_s(60);
  strategy->set_closure_timeout_s(600);
  v1::CheckpointSpec* checkpoint = job->mutable_checkpoint();
  checkpoint->set_max_to_keep(3);
  checkpoint->set_cut_deadline_s(10);
  job->mutable_evaluate()->set_by_closures(true);
  job->mutable_report()->set_every_steps(100);
}

void SetReadingDefaults(const std::string& path, google::protobuf::Message* message) {
  if (auto* dataset = dynamic_cast<v1::DatasetSpec*>(message)) {
    dataset->set_prefetch(2);
    dataset->set_shuffle(path == "data.train");  // as Keras' fit
  } else if (auto* csv = dynamic_cast<v1::CsvSource*>(message)) {
    csv->set_delimiter(",");
  } else if (auto* transform = dynamic_cast<v1::ColumnTransform*>(message)) {
    transform->set_num_oov_indices(1);  // as Keras' StringLookup
  }
}

namespace {

// The default of a lookup applies only to a transform with a lookup.
void CompleteTransforms(v1::DatasetSpec* dataset) {
  for (v1::ColumnTransform& transform : *dataset->mutable_transforms()) {
    if (transform.lookup().empty() && transform.num_oov_indices() == 1) {
      transform.set_num_oov_indices(0);
    }
  }
}

// The mode "auto" of Keras' ModelCheckpoint: a higher accuracy or area under a curve is better.
const char* BestModeOf(const std::string& metric) {
  for (const char* part : {"acc", "auc", "AUC", "Accuracy", "fmeasure"}) {
    if (metric.find(part) != std::string::npos) return "max";
  }
  return "min";
}

}  // namespace

void CompleteDefaults(v1::JobSpec* job) {
  v1::DataSpec* data = job->mutable_data();
  CompleteTransforms(data->mutable_train());
  if (data->has_validation()) CompleteTransforms(data->mutable_validation());
  v1::DatasetSpec* train = data->mutable_train();
  if (data->has_validation()) {
    v1::DatasetSpec* validation = data->mutable_validation();
    if (validation->source_case() == v1::DatasetSpec::SOURCE_NOT_SET) {
      switch (train->source_case()) {
        case v1::DatasetSpec::kGenerator:
          *validation->mutable_generator() = train->generator();
          break;
        case v1::DatasetSpec::kIdx:
          *validation->mutable_idx() = train->idx();
          break;
        case v1::DatasetSpec::kCsv:
          *validation->mutable_csv() = train->csv();
          break;
        case v1::DatasetSpec::SOURCE_NOT_SET:
          break;
      }
    }
    if (validation->transforms().empty()) *validation->mutable_transforms() = train->transforms();
    if (validation->label().empty()) validation->set_label(train->label());
    if (validation->block_size() == 0) validation->set_block_size(data->block_size());
  }
  if (train->block_size() == 0) train->set_block_size(data->block_size());
  v1::CheckpointSpec* checkpoint = job->mutable_checkpoint();
  const bool says_when = checkpoint->every_steps() > 0 || checkpoint->every_seconds() > 0 ||
                         checkpoint->every_epochs() > 0;
  if (!says_when) checkpoint->set_every_epochs(1);
  const bool automatic = checkpoint->mode().empty() || checkpoint->mode() == "auto";
  if (automatic && !checkpoint->keep_best().empty()) {
    checkpoint->set_mode(BestModeOf(checkpoint->keep_best()));
  }
}

}  // namespace cohort
