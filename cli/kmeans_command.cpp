// heed kmeans: clusters of the points in a file.
#include <chrono>
#include <heed/runtime.hpp>
#include <memory>

#include "cli/attention_flags.hpp"
#include "cli/command.hpp"
#include "cli/kmeans.hpp"

namespace heed::cli {
namespace {

constexpr std::string_view kName = "kmeans";

bool is_init(const std::string& text) {
  return text == "k-means++" || text == "random";
}

bool is_double(const KMeansFlags& flags, const Source& data) {
  if (flags.dtype.empty()) return data.array.dtype == DType::f64;
  if (flags.dtype != "float32" && flags.dtype != "float64")
    refuse(kName, "--dtype", "'" + flags.dtype + "', expected float32 or float64");
  return flags.dtype == "float64";
}

EmptyCluster empty_of(const KMeansFlags& flags) {
  if (flags.empty != "keep" && flags.empty != "relocate")
    refuse(kName, "--empty", "'" + flags.empty + "', expected keep or relocate");
  return flags.empty == "keep" ? EmptyCluster::keep : EmptyCluster::relocate;
}

struct Inputs {
  Source data;
  std::optional<Source> centers, weights;
};

Inputs load_inputs(const KMeansFlags& flags) {
  if (flags.k.value_or(1) < 1) refuse(kName, "--k", std::to_string(*flags.k) + " clusters, expected at least 1");
  InputFiles files{std::string(kName)};
  if (flags.data.empty()) refuse(kName, "FILE", "no points, expected heed kmeans FILE --k N");
  Inputs inputs{files.load("FILE", flags.data, "x"), {}, {}};
  if (!is_init(flags.init)) {
    if (flags.init.find('.') == std::string::npos)
      refuse(kName, "--init", "'" + flags.init + "', expected k-means++, random or a file of centers");
    inputs.centers = files.load("--init", flags.init, "centers");
  }
  if (!flags.weights.empty()) inputs.weights = files.load("--weights", flags.weights, "weights");
  const auto check_rank = [](std::string_view flag, const Source& source, std::size_t rank, const char* axes) {
    if (source.array.shape.size() != rank)
      refuse(kName, flag, source.from + " has shape " + shape_text(source.array.shape) + ", expected " + axes);
  };
  check_rank("FILE", inputs.data, 2, "(points, dimensions)");
  if (inputs.centers) check_rank("--init", *inputs.centers, 2, "(clusters, dimensions)");
  if (inputs.weights) check_rank("--weights", *inputs.weights, 1, "(points,)");
  if (inputs.centers && flags.n_init.value_or(1) != 1)
    refuse(kName, "--n-init", "runs from the centers of a file are all the same, expected 1");
  if (inputs.centers && flags.k.value_or(inputs.centers->array.shape[0]) != inputs.centers->array.shape[0])
    refuse(kName, "--k",
           std::to_string(*flags.k) + ", but " + inputs.centers->from + " has " +
               std::to_string(inputs.centers->array.shape[0]) + " centers");
  if (!inputs.centers && !flags.k) refuse(kName, "--k", "not given, expected the number of clusters");
  return inputs;
}

template <class T>
KMeansReport cluster(const KMeansFlags& flags, const Inputs& inputs, OutputFiles& outputs) {
  const auto x = to_tensor<T, 2>(inputs.data.array, "x");
  std::optional<TensorView<const T, 1>> weights;
  Tensor<T, 1> weights_stored;
  if (inputs.weights) {
    weights_stored = to_tensor<T, 1>(inputs.weights->array, "weights");
    weights = weights_stored.view();
  }
  KMeansReport report;
  report.runs = flags.n_init.value_or(1);
  KMeansProgressLine line;
  KMeansParameters<T> parameters{.n_clusters = flags.k.value_or(1),
                                 .init = flags.init == "random" ? KMeansInit::random : KMeansInit::plusplus,
                                 .n_init = report.runs,
                                 .max_iter = flags.max_iter,
                                 .tol = flags.tol,
                                 .empty = empty_of(flags),
                                 .seed = parse_seed(kName, flags.seed),
                                 .warm_start = inputs.centers.has_value(),
                                 .progress =
                                     [&](const KMeansProgress& progress) {
                                       ++report.all_iterations;
                                       line.show(progress, report.runs);
                                     },
                                 .threads = flags.threads};
  std::optional<KMeans<T>> clusters;
  if (inputs.centers)
    clusters.emplace(parameters, to_tensor<T, 2>(inputs.centers->array, "centers").view());
  else
    clusters.emplace(parameters);

  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const KMeansResult<T>& result = clusters->fit(x, weights);
  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();

  report.n = x.shape()[0], report.d = x.shape()[1], report.k = result.centers.shape()[0];
  report.start = inputs.centers ? "centers of a file" : flags.init + ", seed " + flags.seed;
  report.iterations = result.iterations, report.converged = result.converged, report.inertia = result.inertia;
  report.sizes = cluster_sizes(result.labels, report.k);
  report.dtype = dtype_name(dtype_of<T>());

  const Array centers = to_array(result.centers.view()), labels = to_array(result.labels.view());
  if (!flags.centers.empty()) outputs.add(flags.centers, "centers", centers);
  if (!flags.labels.empty()) outputs.add(flags.labels, "labels", labels);
  if (!flags.out.empty()) {
    outputs.add(flags.out, "centers", centers);
    outputs.add(flags.out, "labels", labels);
    outputs.add(flags.out, "inertia", to_array(Tensor<double, 1>({1}, result.inertia).view()));
    outputs.add(flags.out, "iterations", to_array(Tensor<std::int64_t, 1>({1}, result.iterations).view()));
  }
  return report;
}

int run_kmeans(const KMeansFlags& flags) {
  OutputFiles outputs{std::string(kName)};
  std::vector<std::pair<std::string, std::string>> written;
  const auto expect = [&](const std::string& name, const std::string& path, bool has_many) {
    if (path.empty()) return;
    outputs.expect("--" + name, path, has_many);
    written.emplace_back(has_many ? "all" : name, path);
  };
  expect("out", flags.out, true);
  expect("centers", flags.centers, false);
  expect("labels", flags.labels, false);
  Inputs inputs = load_inputs(flags);
  KMeansReport report =
      is_double(flags, inputs.data) ? cluster<double>(flags, inputs, outputs) : cluster<float>(flags, inputs, outputs);
  outputs.write();
  const auto add_input = [&](const char* name, std::optional<Source> source) {
    if (!source) return;
    source->array.bytes.clear();
    report.inputs.emplace_back(name, std::move(*source));
  };
  add_input("points", std::move(inputs.data));
  add_input("weights", std::move(inputs.weights));
  add_input("centers", std::move(inputs.centers));
  report.files = written;
  report.threads = flags.threads > 0 ? flags.threads : num_threads();
  if (flags.wants_json)
    print_json(report_json(report));
  else
    print_report(report);
  return kWell;
}

}  // namespace

void add_kmeans_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<KMeansFlags>();
  CLI::App* command = app.add_subcommand("kmeans", "Clusters of points: seeding and Lloyd's algorithm");
  command->footer(
      example("heed kmeans points.npy --k 16 --out clusters.safetensors\n"
              "  heed kmeans points.npy --k 16 --n-init 10 --seed 7 --centers c.npy --labels l.npy\n"
              "  heed kmeans all.safetensors:x --init c.npy --weights w.npy --empty keep --json"));
  const std::string file = "FILE[:TENSOR]";
  const auto add = [&](const char* name, auto& to, const char* help, const std::string& type,
                       const std::string& group) {
    command->add_option(name, to, help)->type_name(type)->group(group);
  };
  const std::string in = "Input";
  command->add_option("data", flags->data, "Points (points, dimensions); of a .safetensors the tensor x")
      ->type_name(file);
  add("--weights", flags->weights, "Of the points, at least 0 (points,)", file, in);
  const std::string what = "What is done";
  add("-k,--k", flags->k, "Clusters", "N", what);
  add("--init", flags->init, "First centers: drawn (default k-means++), or (clusters, dimensions)",
      "k-means++|random|FILE", what);
  add("--n-init", flags->n_init, "Runs from other draws, of which the best stays (default 1)", "N", what);
  add("--seed", flags->seed, "Of the draws, 0 to 2^64 - 1 (default 0)", "N", what);
  add("--max-iter", flags->max_iter, "Most iterations of a run (default 100)", "N", what);
  add("--tol", flags->tol, "A run ends when no center moves farther (default 1e-8)", "X", what);
  add("--empty", flags->empty, "An empty cluster takes the farthest point (default), or stays", "relocate|keep", what);
  add("--dtype", flags->dtype, "Default float64 if the points are, otherwise float32", "float32|float64", what);
  add("--threads", flags->threads, "At most so many; 0 = all", "N", what);
  const std::string out = "Output (.npy or .safetensors)";
  add("-o,--out", flags->out, "centers, labels, inertia and iterations in one .safetensors", "FILE", out);
  add("--centers", flags->centers, "The centers (clusters, dimensions)", "FILE", out);
  add("--labels", flags->labels, "The cluster of each point, int32 (points,)", "FILE", out);
  command->add_flag("--json", flags->wants_json, "Report as JSON")->group(out);
  command->callback([flags, &action] { action = [flags] { return run_kmeans(*flags); }; });
}

}  // namespace heed::cli
