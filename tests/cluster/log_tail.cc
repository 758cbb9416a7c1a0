#include "tests/cluster/log_tail.h"

#include <fmt/format.h>

#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>

namespace cohort {

std::string TailOf(const std::string& file, int lines) {
  std::ifstream in(file);
  std::deque<std::string> tail;
  for (std::string line; std::getline(in, line);) {
    tail.push_back(line);
    if (static_cast<int>(tail.size()) > lines) tail.pop_front();
  }
  std::string text;
  for (const std::string& line : tail) text += line + "\n";
  return text;
}

std::string TfConfigText(TaskRole role, int index, const std::vector<int>& worker_ports,
                         const std::vector<int>& ps_ports) {
  auto addresses = [](const std::vector<int>& ports) {
    std::vector<std::string> list;
    for (int port : ports) list.push_back(fmt::format("127.0.0.1:{}", port));
    return list;
  };
  nlohmann::json config;
  config["cluster"]["worker"] = addresses(worker_ports);
  config["cluster"]["ps"] = addresses(ps_ports);
  config["task"] = {{"type", TaskRoleName(role)}, {"index", index}};
  return config.dump();
}

}  // namespace cohort
