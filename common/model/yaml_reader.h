#ifndef COHORT_COMMON_MODEL_YAML_READER_H_
#define COHORT_COMMON_MODEL_YAML_READER_H_

#include <absl/status/status.h>
#include <google/protobuf/message.h>
#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/model/job_lines.h"
#include "proto/config.pb.h"

namespace cohort {

// Reads YAML into a protobuf message by its descriptor, so that the message is the only schema.
// It knows nothing about jobs: JobReader adds the forms that differ from the message.
class YamlReader {
 public:
  using Message = google::protobuf::Message;
  using Field = google::protobuf::FieldDescriptor;

  // `lines` gets the line of every key that is read.
  explicit YamlReader(JobLines* lines) : lines_(lines) {}
  virtual ~YamlReader() = default;

  // `path` names the message in errors and lines: "" for the job, "fit", "data.train".
  virtual absl::Status ReadMessage(const YAML::Node& node, const std::string& path,
                                   Message* message);

 protected:
  // A key of a mapping. Entries returns them in order, and refuses repeated keys and keys that are
  // not text.
  struct Entry {
    std::string key;
    int line = 0;
    YAML::Node value;
  };
  // `example` shows the right form in the error about something else; "" without one.
  absl::StatusOr<std::vector<Entry>> Entries(const YAML::Node& node, std::string_view what,
                                             std::string_view example = "");
  // The items of a list.
  absl::StatusOr<std::vector<YAML::Node>> Items(const YAML::Node& node, std::string_view path);

  // Reads the keys of `message`.
  absl::Status ReadEntries(const std::vector<Entry>& entries, const std::string& path,
                           Message* message);
  virtual absl::Status ReadField(const Entry& entry, const std::string& path, const Field* field,
                                 Message* message);

  // Scalars. `what` is the key, for the error. A quoted number is a string.
  absl::StatusOr<std::string> Text(const YAML::Node& node, std::string_view what);
  absl::StatusOr<double> Number(const YAML::Node& node, std::string_view what);
  absl::StatusOr<int64_t> Integer(const YAML::Node& node, std::string_view what);
  absl::StatusOr<bool> Boolean(const YAML::Node& node, std::string_view what);
  // A scalar that may stand in an example as it is; else "".
  static std::string ExampleText(const YAML::Node& node);
  // A bool, an integer, a finite number, or else a string.
  v1::ConfigValue Scalar(const YAML::Node& node);

  void Note(const std::string& path, int line) { lines_->keys.emplace(path, line); }
  int LineOf(const YAML::Node& node) const { return node.Mark().line + 1; }
  const std::string& file() const { return lines_->file; }
  JobLines* lines() const { return lines_; }

  template <typename... Args>
  absl::Status Error(int line, fmt::format_string<Args...> format, Args&&... args) const {
    return InvalidArgument("{}:{}: {}", lines_->file, line,
                           fmt::format(format, std::forward<Args>(args)...));
  }
  // `unknown key "x" in `fit`; did you mean "y"?`, or the list of the known keys. A planned key is
  // reported as not supported yet.
  absl::Status UnknownKey(int line, std::string_view key, std::string_view what,
                          const std::vector<std::string>& known) const;

 private:
  absl::Status ReadRepeated(const Entry& entry, const std::string& path, const Field* field,
                            Message* message);
  // Sets a scalar, or adds one to a repeated field.
  absl::Status ReadScalar(const YAML::Node& node, std::string_view what, const Field* field,
                          Message* message);
  absl::Status ReadEnum(const YAML::Node& node, std::string_view what, const Field* field,
                        Message* message);
  absl::Status CheckOneof(const Entry& entry, const Field* field, const Message& message) const;

  JobLines* lines_;
  int64_t nodes_ = 0;  // read so far: aliases could make a small file a large one
};

// "a.b", or "b" if a is empty.
std::string JoinKeys(const std::string& path, std::string_view key);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_YAML_READER_H_
