# SPDX-License-Identifier: Apache-2.0
# bench/gpu_torch.py: PyTorch's rates on this GPU for the operations of bench/gpu, to judge our limits and
# kernels: copies, matrix products, prefill attention (FlashAttention-2's and cuDNN's), top_p sampling.
# Medians of CUDA events after a warm-up.
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def seconds(run, rounds=15):
    for _ in range(4):
        run()
    times = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return sorted(times)[rounds // 2]


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def copies():
    x = torch.empty(1 << 31, dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
    print(f"torch copy of 2 GiB                {2 * x.numel() / seconds(lambda: y.copy_(x)) * 1e-9:8.0f} GB/s")


def products():
    n = 8192
    w = random(n, n)
    for rows in (1, 16, 64, 512, 2048, 8192):
        x = random(rows, n)
        time = seconds(lambda x=x: x @ w.T)
        print(
            f"torch {rows:5} x {n} x {n}         {2 * rows * n * n / time * 1e-12:8.0f} TFLOP/s"
            f" {2 * n * n / time * 1e-9:6.0f} GB/s"
        )


def prefill(heads, kv_heads, n):
    q, k, v = random(1, heads, n, 128), random(1, kv_heads, n, 128), random(1, kv_heads, n, 128)
    operations = 4 * 128 * heads * n * (n + 1) / 2
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
        try:
            with sdpa_kernel(backend):
                time = seconds(
                    lambda: F.scaled_dot_product_attention(
                        q, k, v, is_causal=True, enable_gqa=heads != kv_heads
                    )
                )
            rate = f"{operations / time * 1e-12:8.0f} TFLOP/s"
        except RuntimeError as e:
            rate = f"not here: {str(e).splitlines()[0]}"
        print(f"torch {name} prefill {heads}/{kv_heads}, 1 x {n:5} {rate}")


def top_p(rows, vocab=128256):
    logits = torch.randn(rows, vocab, device="cuda") * 3

    def run():
        p, order = torch.softmax(logits, -1).sort(dim=-1, descending=True)
        kept = p.masked_fill(p.cumsum(-1) - p > 0.9, 0)
        return order.gather(-1, torch.multinomial(kept, 1))

    print(f"torch top_p 0.9 of {rows:3} rows         {seconds(run) * 1e6:8.0f} us")


print(torch.cuda.get_device_name(), "torch", torch.__version__)
copies()
products()
for heads, kv_heads in ((32, 8), (40, 40)):
    for n in (4096, 16384):
        prefill(heads, kv_heads, n)
for rows in (1, 64, 256):
    top_p(rows)
