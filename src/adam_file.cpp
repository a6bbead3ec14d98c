// The state of an optimiser in a file, and back.
#include <cmath>
#include <cstring>
#include <heed/adam.hpp>
#include <heed/safetensors.hpp>
#include <string>
#include <utility>
#include <vector>

#include "src/array_bytes.hpp"
#include "src/check.hpp"

namespace heed {
namespace {

constexpr std::string_view kLoad = "Adam::load";

// More updates than anyone makes; one more can be counted.
constexpr std::int64_t kMostSteps = std::int64_t{1} << 62;

std::string named(const char* what, std::size_t parameter) {
  return std::string(what) + "." + std::to_string(parameter);
}

template <class T>
Array state_array(const Tensor<T, 1>& state, const std::vector<std::int64_t>& shape) {
  Array array{dtype_of<T>(), shape, std::vector<std::byte>(static_cast<std::size_t>(state.size()) * sizeof(T))};
  if (state.size() > 0) std::memcpy(array.bytes.data(), state.data(), array.bytes.size());
  return array;
}

// The tensors of a file, each taken once.
class StateFile {
 public:
  explicit StateFile(const std::filesystem::path& path)
      : path_(printable(path.string())), file_(read_safetensors(path)) {}

  Array take(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape) {
    const auto at = file_.tensors.find(name);
    if (at == file_.tensors.end()) refuse(name, "missing in " + path_);
    Array array = std::move(at->second);
    file_.tensors.erase(at);
    if (array.dtype != dtype)
      refuse(name, "dtype " + std::string(dtype_name(array.dtype)) + " is not " + std::string(dtype_name(dtype)));
    if (array.shape != shape)
      refuse(name, "shape " + extents_text(array.shape) + " is not that of the parameter, " + extents_text(shape));
    return array;
  }

  template <class T>
  Tensor<T, 1> take_moment(const std::string& name, const std::vector<std::int64_t>& shape, bool may_be_negative) {
    const Array array = take(name, dtype_of<T>(), shape);
    Tensor<T, 1> moment({array.size()});
    if (moment.size() > 0) std::memcpy(moment.data(), array.bytes.data(), array.bytes.size());
    for (const T value : moment) {
      if (!std::isfinite(value)) refuse(name, "holds a number that is not finite; moments are");
      if (!may_be_negative && value < 0) refuse(name, "holds a negative number; second moments are at least 0");
    }
    return moment;
  }

  std::int64_t take_step(const std::string& name) {
    const Array array = take(name, DType::i64, {});
    std::int64_t step = 0;
    std::memcpy(&step, array.bytes.data(), sizeof step);
    if (step < 0 || step > kMostSteps)
      refuse(name, std::to_string(step) + " is no number of steps, at least 0 and at most 2^62");
    return step;
  }

  void expect_nothing_left() const {
    if (!file_.tensors.empty())
      refuse(file_.tensors.begin()->first, "stands in " + path_ + ", but belongs to no parameter of this optimiser");
  }

 private:
  [[noreturn]] static void refuse(const std::string& name, const std::string& message) {
    fail(kLoad, "tensor '" + printable(name) + "'", message);
  }

  std::string path_;
  SafeTensors file_;
};

}  // namespace

template <class T>
void Adam<T>::save(const std::filesystem::path& path) const {
  SafeTensors file;
  for (std::size_t n = 0; n < parameters_.size(); ++n) {
    const Parameter& p = parameters_[n];
    file.tensors[named("m", n)] = state_array(p.m, p.view.shape);
    file.tensors[named("v", n)] = state_array(p.v, p.view.shape);
    if (options_[p.group].amsgrad) file.tensors[named("v_max", n)] = state_array(p.v_max, p.view.shape);
    Array step{DType::i64, {}, std::vector<std::byte>(sizeof p.step)};
    std::memcpy(step.bytes.data(), &p.step, sizeof p.step);
    file.tensors[named("step", n)] = std::move(step);
  }
  write_safetensors(path, file);
}

template <class T>
void Adam<T>::load(const std::filesystem::path& path) {
  StateFile file(path);
  std::vector<Parameter> loaded;
  loaded.reserve(parameters_.size());
  for (std::size_t n = 0; n < parameters_.size(); ++n) {
    const Parameter& p = parameters_[n];
    Parameter& to = loaded.emplace_back();
    to.view = p.view, to.group = p.group;
    to.m = file.take_moment<T>(named("m", n), p.view.shape, true);
    to.v = file.take_moment<T>(named("v", n), p.view.shape, false);
    if (options_[p.group].amsgrad) to.v_max = file.take_moment<T>(named("v_max", n), p.view.shape, false);
    to.step = file.take_step(named("step", n));
  }
  file.expect_nothing_left();
  parameters_ = std::move(loaded);
}

template void Adam<float>::save(const std::filesystem::path&) const;
template void Adam<double>::save(const std::filesystem::path&) const;
template void Adam<float>::load(const std::filesystem::path&);
template void Adam<double>::load(const std::filesystem::path&);

}  // namespace heed
