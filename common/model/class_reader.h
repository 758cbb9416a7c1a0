#ifndef COHORT_COMMON_MODEL_CLASS_READER_H_
#define COHORT_COMMON_MODEL_CLASS_READER_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/model/yaml_reader.h"
#include "common/schema/class_registry.h"

namespace cohort {

// A YamlReader that also reads classes with arguments, and lists of values by the outputs of a
// model. The readers of the parts of a job derive from it.
class ClassReader : public YamlReader {
 public:
  using YamlReader::YamlReader;

  // Sets the defaults of the message first.
  absl::Status ReadMessage(const YAML::Node& node, const std::string& path,
                           Message* message) override;

 protected:
  // A class as the file has it: `Name`, `{Name: {argument: value}}` or `{class_name: Name, config:
  // {argument: value}}`.
  struct ClassNode {
    std::string name;
    int line = 0;
    bool has_arguments = false;  // it is a mapping
    std::vector<Entry> arguments;

    // Removes an argument and returns it.
    std::optional<Entry> Take(std::string_view key);
  };

  // Every class is read by these: the name is looked up in `classes`, and the arguments are
  // converted and completed by the schema. Errors have the line of the argument.
  absl::Status ReadClass(const YAML::Node& node, const std::string& path, const SchemaSet& classes,
                         v1::ClassConfig* config);
  absl::StatusOr<ClassNode> ReadClassNode(const YAML::Node& node, const std::string& path,
                                          const SchemaSet& classes);
  absl::Status ReadArguments(const ClassNode& node, const std::string& path,
                             const ClassSchema& schema, v1::ClassConfig* config);

  // True for a mapping from names of outputs; false for a class with arguments, and for all else.
  bool IsByOutput(const YAML::Node& node, const SchemaSet& classes,
                  std::span<const std::string> outputs) const;
  // The values of a list in the order of the outputs, or of a mapping from their names. An output
  // without a value has a null node.
  absl::StatusOr<std::vector<YAML::Node>> ByOutput(const Entry& entry, const std::string& path,
                                                   std::span<const std::string> outputs);

  // `{Dense: {units: 2}}`: a class with the arguments that it requires.
  static std::string ExampleOf(const ClassSchema& schema);
  // Adds "FILE:LINE: " to a status.
  absl::Status AtLine(int line, const absl::Status& status) const;

 private:
  // `classes` (may be null) serves examples in errors.
  absl::StatusOr<ClassNode> ReadNode(const YAML::Node& node, const std::string& path,
                                     const SchemaSet* classes);
  static std::string ExampleFor(const std::string& name, const YAML::Node& value,
                                const SchemaSet* classes);
  absl::Status ReadArgument(const Entry& entry, const std::string& path, const ClassSchema& schema,
                            const Argument& argument, v1::ConfigValue* value);
  // Reads what Argument::table describes.
  absl::Status ReadTable(const Entry& entry, const std::string& path, const ClassSchema& schema,
                         const Argument& argument, v1::ConfigList* pairs);
  absl::Status ReadObjects(const Entry& entry, const std::string& path, const Argument& argument,
                           v1::ConfigValue* value);
  absl::Status ReadMappedArgument(const Entry& entry, const std::string& path,
                                  const ClassSchema& schema, const Argument& argument,
                                  v1::ConfigValue* value);
};

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_CLASS_READER_H_
