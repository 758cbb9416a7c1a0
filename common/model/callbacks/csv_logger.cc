// keras/src/callbacks/csv_logger.py
#include <algorithm>

#include "common/model/callbacks/callback.h"

namespace cohort {
namespace {

// The file is a function of the history, so it is right after a restart and a rollback.
class CSVLogger : public Callback {
 public:
  explicit CSVLogger(const Config& config)
      : filename_(config.String("filename")), separator_(config.String("separator")) {}

  void OnEpochEnd(const EpochValues& epoch, EpochDecision*) override { epochs_.push_back(epoch); }

  std::optional<CallbackFile> File() const override {
    std::vector<std::string> names;
    for (const EpochValues& epoch : epochs_) {
      for (const auto& [name, value] : Row(epoch)) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    CallbackFile file{.path = filename_, .text = "epoch"};
    for (const std::string& name : names) file.text += separator_ + name;
    file.text += "\r\n";
    for (const EpochValues& epoch : epochs_) {
      const std::map<std::string, double> row = Row(epoch);
      file.text += fmt::format("{}", epoch.epoch - 1);
      for (const std::string& name : names) {
        const auto value = row.find(name);
        file.text += separator_ + (value == row.end() ? "NA" : fmt::format("{}", value->second));
      }
      file.text += "\r\n";
    }
    return file;
  }

 private:
  static std::map<std::string, double> Row(const EpochValues& epoch) {
    std::map<std::string, double> row = epoch.values;
    if (epoch.learning_rate.has_value()) row["learning_rate"] = *epoch.learning_rate;
    return row;
  }

  const std::string filename_;
  const std::string separator_;
  std::vector<EpochValues> epochs_;
};

}  // namespace

CallbackClass CSVLoggerCallback() {
  return {.schema = {.name = "CSVLogger",
                     .doc = "Writes the metrics of all epochs into a CSV file at the end of each. "
                            "Epochs count from 0, as in Keras; `NA` is a metric that is not known.",
                     .arguments = {String("filename", "The file. Its directory must exist."),
                                   String("separator", "Stands between two columns.").Default(","),
                                   Bool("append",
                                        "Has no effect: the file has all epochs of the job, also "
                                        "those before a restart.")
                                       .Default(false)}},
          .make = [](const Config& config) -> std::unique_ptr<Callback> {
            return std::make_unique<CSVLogger>(config);
          }};
}

}  // namespace cohort
