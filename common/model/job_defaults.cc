#include "common/model/job_defaults.h"

#include "common/data/dataset.h"
#include "common/data/source_class.h"
#include "common/data/transform_class.h"
#include "common/model/callbacks/callback.h"
#include "common/model/layers/layer.h"
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"
#include "common/model/strategies.h"
#include "common/optimizers/optimizers.h"

namespace cohort {

void SetJobDefaults(v1::JobSpec* job) {
  job->set_name("job");
  job->mutable_model()->set_dtype("float32");
  v1::ClassConfig optimizer;
  optimizer.set_class_name("RMSprop");  // as Keras' compile
  *job->mutable_compile()->mutable_optimizer_class() =
      CompleteConfig(OptimizerSchemas(), optimizer).value_or(optimizer);
  job->mutable_compile()->set_sparse_update("keras");
  v1::DataSpec* data = job->mutable_data();
  data->set_visitation(v1::EXACTLY_ONCE);
  data->set_batch_size(32);  // as Keras' fit
  data->set_block_size(1);
  data->mutable_stream()->set_poll_s(5);
  v1::FitSpec* fit = job->mutable_fit();
  fit->set_epochs(1);
  fit->set_steps_per_execution(1);
  fit->set_validation_freq(1);
  v1::StrategySpec* strategy = job->mutable_strategy();
  strategy->set_backup_work("none");
  strategy->set_deterministic("auto");
  strategy->set_scale_learning_rate("none");
  strategy->set_placement("balanced");
  strategy->set_closures_in_flight(16);
  strategy->set_max_attempts(10);
  strategy->set_task_timeout_s(60);
  strategy->set_closure_timeout_s(600);
  v1::CheckpointSpec* checkpoint = job->mutable_checkpoint();
  checkpoint->set_max_to_keep(3);
  checkpoint->set_full_every(1);
  checkpoint->set_cut_deadline_s(10);
  job->mutable_evaluate()->set_by_closures(true);
}

void SetReadingDefaults(const std::string& path, google::protobuf::Message* message) {
  if (auto* dataset = dynamic_cast<v1::DatasetSpec*>(message)) {
    dataset->set_prefetch(2);
    dataset->set_shuffle(path == "data.train");  // as Keras' fit
  }
  if (auto* precision = dynamic_cast<v1::MixedPrecisionSpec*>(message)) {
    precision->set_dtype("float32");
    precision->set_initial_scale(0x1p15);  // as Keras' LossScaleOptimizer
    precision->set_dynamic_growth_steps(2000);
  }
}

namespace {

// Rows of each embedding of which a worker keeps copies.
constexpr uint64_t kDefaultHotRows = 100'000;

// The mode "auto" of Keras' callbacks: the class of the metric knows its direction. CheckJob
// refuses a monitor that is neither a loss nor a metric.
const char* ModeOf(std::string_view monitor, const v1::JobSpec& job) {
  if (monitor.starts_with("val_")) monitor.remove_prefix(4);
  for (const v1::MetricSpec& metric : job.compile().metric_classes()) {
    const std::string part = metric.name() + "_";
    const bool is_part = monitor.starts_with(part) &&
                         monitor.find_first_not_of("0123456789", part.size()) == monitor.npos;
    if (monitor != metric.name() && !is_part) continue;
    const auto known = Metrics().Find(metric.metric_class().class_name());
    if (known.ok() && (*known)->higher_is_better) return "max";
  }
  return "min";
}

}  // namespace

void CompleteClasses(v1::JobSpec* job) {
  const auto complete = [](const SchemaSet& classes, v1::ClassConfig* config) {
    if (auto completed = CompleteConfig(classes, *config); completed.ok()) {
      *config = *std::move(completed);
    }
  };
  for (v1::LayerSpec& layer : *job->mutable_model()->mutable_layers()) {
    if (!layer.shares().empty()) continue;  // it has no config of its own
    v1::ClassConfig config;
    config.set_class_name(layer.class_name());
    config.mutable_config()->swap(*layer.mutable_config());
    complete(LayersFor(layer.class_name()), &config);
    layer.mutable_config()->swap(*config.mutable_config());
  }
  v1::CompileSpec* compile = job->mutable_compile();
  if (compile->has_loss_class()) complete(Losses(), compile->mutable_loss_class());
  for (v1::OutputLoss& loss : *compile->mutable_losses()) {
    complete(Losses(), loss.mutable_loss_class());
  }
  for (v1::MetricSpec& metric : *compile->mutable_metric_classes()) {
    complete(Metrics(), metric.mutable_metric_class());
  }
  if (compile->has_optimizer_class()) {
    complete(OptimizerSchemas(), compile->mutable_optimizer_class());
  }
  for (v1::OptimizerChoice& choice : *compile->mutable_optimizers()) {
    complete(OptimizerSchemas(), choice.mutable_optimizer_class());
  }
  const auto complete_dataset = [&](v1::DatasetSpec* dataset) {
    if (dataset->has_source_class()) complete(Sources(), dataset->mutable_source_class());
    for (v1::ColumnTransform& transform : *dataset->mutable_transforms()) {
      complete(Transforms(), transform.mutable_transform_class());
    }
  };
  if (job->data().has_train()) complete_dataset(job->mutable_data()->mutable_train());
  if (job->data().has_validation()) complete_dataset(job->mutable_data()->mutable_validation());
}

// Leaves only what has an effect, so that jobs which do the same are the same.
void CompleteMixedPrecision(v1::JobSpec* job) {
  if (!job->has_mixed_precision()) return;
  v1::MixedPrecisionSpec* const precision = job->mutable_mixed_precision();
  if (precision->dtype() == "float32") return job->clear_mixed_precision();
  const bool is_scaled = precision->dtype() == "float16";
  if (is_scaled && precision->loss_scale() == 0) return;
  if (!is_scaled) precision->clear_loss_scale();
  precision->clear_initial_scale();
  precision->clear_dynamic_growth_steps();
}

void CompleteDefaults(v1::JobSpec* job) {
  CompleteMixedPrecision(job);
  if (job->gradient_dtype() == "float32") job->clear_gradient_dtype();
  // CheckJob reports errors.
  for (const v1::ClassConfig& callback : job->fit().callbacks()) {
    const auto known = Callbacks().Find(callback.class_name());
    if (known.ok() && (*known)->apply != nullptr) {
      (void)(*known)->apply(Config(callback), job);
    }
  }
  if (v1::ReportSpec* report = job->mutable_report(); !report->has_every_steps()) {
    report->set_every_steps(100);
  }
  v1::StrategySpec* strategy = job->mutable_strategy();
  if (strategy->name().empty()) {
    strategy->set_name(std::string(DefaultStrategy(OwnerCalls::kSockets).name));
  }
  if (const StrategyClass* const known = FindStrategy(strategy->name()); known != nullptr) {
    strategy->set_name(std::string(known->name));
    if (strategy->mode().empty()) strategy->set_mode(std::string(known->mode));
  }
  if (strategy->has_hot_rows() && !strategy->hot_rows().has_rows()) {
    strategy->mutable_hot_rows()->set_rows(kDefaultHotRows);
  }
  if (strategy->communication().empty()) {
    const std::string ops = CommunicationOf(strategy->cross_device_ops());
    strategy->set_communication(ops.empty() ? kAutoCommunication : ops);
  } else if (std::string name = FindCommunication(strategy->communication()); !name.empty()) {
    strategy->set_communication(std::move(name));
  }
  v1::DataSpec* data = job->mutable_data();
  if (data->visitation() == v1::STREAM) {
    job->mutable_fit()->set_epochs(kEpochsOfStream);
  } else {
    data->clear_stream();  // it has no effect
  }
  if (data->global_batch_size() > 0 && strategy->closures_per_step() > 0) {
    data->set_batch_size(data->global_batch_size() / strategy->closures_per_step());
  }
  v1::DatasetSpec* train = data->mutable_train();
  // JobPlan finds the records of both parts.
  if (job->fit().validation_split() > 0 && !data->has_validation()) {
    *data->mutable_validation() = *train;
    data->mutable_validation()->set_shuffle(false);
  }
  if (data->has_validation()) {
    v1::DatasetSpec* validation = data->mutable_validation();
    // A stream has no other rows for it.
    const bool is_stream = data->visitation() == v1::STREAM;
    if (!validation->has_source_class() && train->has_source_class() && !is_stream) {
      *validation->mutable_source_class() = train->source_class();
    }
    if (validation->transforms().empty()) *validation->mutable_transforms() = train->transforms();
    if (LabelsOf(*validation).empty()) {
      validation->set_label(train->label());
      *validation->mutable_labels() = train->labels();
    }
    if (validation->sample_weight().empty()) {
      *validation->mutable_sample_weight() = train->sample_weight();
    }
    if (validation->filter().empty()) validation->set_filter(train->filter());
    if (validation->block_size() == 0) validation->set_block_size(data->block_size());
  }
  if (train->block_size() == 0) train->set_block_size(data->block_size());
  v1::CheckpointSpec* checkpoint = job->mutable_checkpoint();
  const bool says_when = checkpoint->every_steps() > 0 || checkpoint->every_seconds() > 0 ||
                         checkpoint->every_epochs() > 0;
  if (!says_when) checkpoint->set_every_epochs(1);
  const bool automatic = checkpoint->mode().empty() || checkpoint->mode() == "auto";
  if (automatic && !checkpoint->keep_best().empty()) {
    checkpoint->set_mode(ModeOf(checkpoint->keep_best(), *job));
  }
  for (v1::ClassConfig& callback : *job->mutable_fit()->mutable_callbacks()) {
    auto& arguments = *callback.mutable_config();
    const auto mode = arguments.find("mode");
    const auto monitor = arguments.find("monitor");
    if (mode == arguments.end() || monitor == arguments.end()) continue;
    if (mode->second.s() == "auto") mode->second.set_s(ModeOf(monitor->second.s(), *job));
  }
}

}  // namespace cohort
