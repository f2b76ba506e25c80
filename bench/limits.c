/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/limits.h"
#include "bench/bench.h"

#include <dnnl.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/memory.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#define READ_BYTES ((size_t)512 << 20)

static char *map_small(size_t bytes)
{
  char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return NULL;
  madvise(p, bytes, MADV_NOHUGEPAGE);
  return p;
}

int limits_create(struct lls_cpu_threads *threads, struct limits *l)
{
  const size_t bytes = (size_t)LIMITS_MATRIX * LIMITS_MATRIX * sizeof(float);
  *l = (struct limits){.threads = threads, .read_bytes = READ_BYTES};
  l->small = map_small(READ_BYTES);
  if (l->small == NULL || lls_cpu_memory_alloc(READ_BYTES, (void **)&l->huge) != 0 ||
      lls_cpu_memory_alloc(bytes, (void **)&l->a) != 0 ||
      lls_cpu_memory_alloc(bytes, (void **)&l->b) != 0 ||
      lls_cpu_memory_alloc(bytes, (void **)&l->c) != 0) {
    limits_destroy(l);
    return -ENOMEM;
  }
  memset(l->huge, 1, READ_BYTES);
  memset(l->small, 1, READ_BYTES);
  for (size_t i = 0; i < bytes / sizeof(float); i++) {
    l->a[i] = (float)(i % 17) * 0.01f;
    l->b[i] = (float)(i % 13) * 0.01f;
  }
  return 0;
}

void limits_destroy(struct limits *l)
{
  if (l->small != NULL)
    munmap(l->small, l->read_bytes);
  lls_cpu_memory_free(l->huge);
  lls_cpu_memory_free(l->a);
  lls_cpu_memory_free(l->b);
  lls_cpu_memory_free(l->c);
}

struct reading {
  const char *data;
  size_t bytes, ahead;
  uint64_t sum[64]; /* of each thread, so that the reads are not dropped */
};

typedef uint64_t vector __attribute__((vector_size(32)));

static void read_task(void *arg, unsigned thread, unsigned n_threads)
{
  struct reading *r = arg;
  size_t part = r->bytes / n_threads / 4096 * 4096;
  const char *p = r->data + part * thread, *end = p + part;
  vector s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
  for (; p < end; p += 128) {
    if (r->ahead != 0) {
      __builtin_prefetch(p + r->ahead);
      __builtin_prefetch(p + r->ahead + 64);
    }
    const vector *v = (const vector *)p;
    s0 += v[0];
    s1 += v[1];
    s2 += v[2];
    s3 += v[3];
  }
  s0 += s1 + s2 + s3;
  r->sum[thread % 64] = s0[0] + s0[1] + s0[2] + s0[3];
}

double limits_read(const struct limits *l, bool huge_pages, size_t prefetch_ahead)
{
  struct reading r = {
      .data = huge_pages ? l->huge : l->small,
      .bytes = l->read_bytes,
      .ahead = prefetch_ahead,
  };
  double start = bench_seconds();
  lls_cpu_run(l->threads, read_task, &r);
  return (double)r.bytes / (bench_seconds() - start);
}

/* Each thread takes its rows of c; oneDNN is told to use no threads of its own. */
static void f32_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct limits *l = arg;
  const size_t n = LIMITS_MATRIX, first = n * thread / n_threads;
  size_t rows = n * (thread + 1) / n_threads - first;
#ifdef _OPENMP
  omp_set_num_threads(1);
#endif
  dnnl_sgemm('N', 'T', (dnnl_dim_t)rows, n, n, 1.0f, l->a + first * n, n, l->b, n, 0.0f,
             l->c + first * n, n);
}

double limits_f32(const struct limits *l)
{
  const double n = LIMITS_MATRIX;
  double start = bench_seconds();
  lls_cpu_run(l->threads, f32_task, (void *)l);
  return 2 * n * n * n / (bench_seconds() - start);
}
