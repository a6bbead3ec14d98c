"""Who computes softmax, k-means and Adam besides Heed."""

import warnings

import faiss
import numpy as np
import sklearn.cluster
import sklearn.exceptions
import threadpoolctl
import torch

from algorithm_rows import AdamProblem, KMeansProblem, SoftmaxProblem
from heed_algorithms import HeedAdam, HeedKMeans, HeedSoftmax
from rows import aligned


class TorchSoftmax:
    name = "PyTorch"

    def __init__(self, problem, threads):
        self.x = torch.from_numpy(problem.x)
        self.out = torch.empty_like(self.x)
        self.axis = problem.axis
        self.function = torch.log_softmax if problem.is_log else torch.softmax

    def run(self):
        with torch.inference_mode():
            self.function(self.x, self.axis, out=self.out)

    def output(self):
        return self.out.numpy()


class ScikitLearn:
    """Its KMeans with Lloyd's algorithm. Like Heed it ends with the labels of the last centres."""

    name = "scikit-learn"

    def __init__(self, problem, threads):
        self.x = problem.x
        self.estimator = sklearn.cluster.KMeans(
            len(problem.centers), init=problem.centers, n_init=1, max_iter=problem.iterations, tol=0, algorithm="lloyd"
        )

    def run(self):
        with warnings.catch_warnings():  # that it did not converge
            warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
            self.estimator.fit(self.x)

    def output(self):
        return self.estimator.cluster_centers_


class Faiss:
    """Its Kmeans, which leaves the labels of the last centres out."""

    name = "faiss"

    def __init__(self, problem, threads):
        self.problem = problem

    def run(self):
        x, centers = self.problem.x, self.problem.centers
        self.kmeans = faiss.Kmeans(
            x.shape[1], len(centers), niter=self.problem.iterations, min_points_per_centroid=1, max_points_per_centroid=len(x)
        )
        self.kmeans.train(x, init_centroids=centers)

    def output(self):
        return self.kmeans.centroids


class TorchAdam:
    """torch.optim.Adam as it is by default."""

    name = "PyTorch"
    options = {}

    def __init__(self, problem, threads):
        self.params = [torch.from_numpy(aligned(each)).requires_grad_() for each in problem.params]
        for param, grad in zip(self.params, problem.grads):
            param.grad = torch.from_numpy(grad)
        self.optimiser = torch.optim.Adam(self.params, amsgrad=problem.amsgrad, **self.options)

    def run(self):
        self.optimiser.step()

    def output(self):
        return np.concatenate([param.detach().numpy() for param in self.params])


class TorchForeachAdam(TorchAdam):
    name = "PyTorch, foreach"
    options = {"foreach": True}


class TorchFusedAdam(TorchAdam):
    name = "PyTorch, fused"
    options = {"fused": True}


PARTICIPANTS = {
    SoftmaxProblem: [HeedSoftmax, TorchSoftmax],
    KMeansProblem: [HeedKMeans, ScikitLearn, Faiss],
    AdamProblem: [HeedAdam, TorchAdam, TorchForeachAdam, TorchFusedAdam],
}
NAMES = ["Heed", "PyTorch", "scikit-learn", "faiss"]


def make_participants(problem, fold, threads):
    torch.set_num_threads(threads)
    # Of every OpenMP and BLAS library in the process, each of which brings its own.
    threadpoolctl.threadpool_limits(threads)
    return [each(problem, threads) for each in PARTICIPANTS[type(problem)]]


def versions():
    return {"scikit-learn": sklearn.__version__, "faiss": faiss.__version__}
