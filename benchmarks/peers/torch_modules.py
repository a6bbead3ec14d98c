"""PyTorch's ways to compute multi-head attention from the weights of a ModuleProblem."""

import torch


class TorchModule:
    """torch.nn.MultiheadAttention without biases."""

    name = "PyTorch"
    biases = False

    def __init__(self, problem, threads):
        torch.set_num_threads(threads)
        self.x = torch.from_numpy(problem.x)
        self.module = torch.nn.MultiheadAttention(self.x.shape[2], problem.heads, bias=self.biases, batch_first=True).eval()
        with torch.no_grad():
            self.module.in_proj_weight.copy_(torch.from_numpy(problem.w_in))
            self.module.out_proj.weight.copy_(torch.from_numpy(problem.w_out))

    def run(self):
        with torch.inference_mode():
            self.out, _ = self.module(self.x, self.x, self.x, need_weights=False)

    def output(self):
        return self.out.numpy()


class TorchFused(TorchModule):
    """The same with biases, which it makes 0: only then it takes its fused operator."""

    name = "PyTorch, with biases"
    biases = True


class TorchFunctions:
    """Its functions, put together as a model would that has no use for the module."""

    name = "PyTorch, functions"

    def __init__(self, problem, threads):
        torch.set_num_threads(threads)
        self.heads = problem.heads
        self.x, self.w_in, self.w_out = (torch.from_numpy(each) for each in (problem.x, problem.w_in, problem.w_out))

    def run(self):
        batch, length, model_dim = self.x.shape
        with torch.inference_mode():
            together = torch.nn.functional.linear(self.x, self.w_in).view(batch, length, 3, self.heads, -1)
            q, k, v = together.permute(2, 0, 3, 1, 4)  # (batch, heads, len, dim), nothing copied
            context = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            rows = context.transpose(1, 2).reshape(batch, length, model_dim)
            self.out = torch.nn.functional.linear(rows, self.w_out)

    def output(self):
        return self.out.numpy()
