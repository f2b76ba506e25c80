/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how fast all threads together read memory; see limits.h. */
#include "bench/limits.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cpu/memory.h"

#define READ_BYTES  ((size_t)256 << 20) /* least bytes read in a measurement */
#define MOST_BYTES  ((size_t)1 << 30)
#define PIECE_BYTES ((size_t)32 << 20)
#define MAX_STREAMS 8
#define READS       5 /* reads in a sample, for each way */
#define PRODUCTS    5 /* products in a sample, for each type */

#define PRODUCT_SECONDS 4e-3 /* approximate seconds of one measurement */

typedef uint64_t vector __attribute__((vector_size(32)));

struct reading {
  const char *data;
  size_t bytes;
  size_t way;
  uint64_t sum; /* keeps the compiler from dropping the reads */
};

/* Reads `streams` parts of the memory in parallel; `streams` and `ahead` are constants.
 */
static inline __attribute__((always_inline)) uint64_t
read_streams(const char *p, size_t bytes, const unsigned streams, const size_t ahead)
{
  size_t part = bytes / streams;
  vector sum[MAX_STREAMS] = {0};
  for (size_t i = 0; i < part; i += 64) {
#pragma GCC unroll 8
    for (unsigned s = 0; s < streams; s++) {
      const vector *v = (const vector *)(p + s * part + i);
      if (ahead != 0)
        __builtin_prefetch((const char *)v + ahead);
      sum[s] += v[0];
      sum[s] += v[1];
    }
  }
  for (unsigned s = 1; s < streams; s++)
    sum[0] += sum[s];
  return sum[0][0] + sum[0][1] + sum[0][2] + sum[0][3];
}

/* Ways to read memory. Which is fastest depends on the machine and on its load. */
#define WAYS(F)                                                                          \
  F(1, 0) F(1, 1024) F(1, 3072) F(2, 0) F(2, 1024) F(4, 0) F(4, 1024) F(8, 0)

#define READ(streams, ahead)                                                             \
  static uint64_t read_##streams##_##ahead(const char *p, size_t bytes)                  \
  {                                                                                      \
    return read_streams(p, bytes, streams, ahead);                                       \
  }
WAYS(READ)

#define WAY(streams, ahead) {{streams, ahead}, read_##streams##_##ahead},
static const struct {
  struct limits_way way;
  uint64_t (*read)(const char *p, size_t bytes);
} ways[] = {WAYS(WAY)};
#define N_WAYS (sizeof ways / sizeof *ways)

static void read_task(void *arg, unsigned thread, unsigned n_threads)
{
  struct reading *r = arg;
  size_t part = r->bytes / n_threads / (MAX_STREAMS * 4096) * MAX_STREAMS * 4096;
  uint64_t sum = ways[r->way].read(r->data + part * thread, part);
  __atomic_fetch_add(&r->sum, sum, __ATOMIC_RELAXED);
}

static double read_as(struct limits *l, bool huge_pages, size_t way)
{
  size_t piece = l->next++ % (l->bytes / PIECE_BYTES);
  struct reading r = {
      .data = (huge_pages ? l->huge : l->small) + piece * PIECE_BYTES,
      .bytes = PIECE_BYTES,
      .way = way,
  };
  double start = bench_seconds();
  lls_cpu_run(l->threads, read_task, &r);
  double rate = (double)PIECE_BYTES / (bench_seconds() - start);
  if (huge_pages && rate > l->best.read)
    l->best.read = rate;
  return rate;
}

double limits_read(struct limits *l, bool huge_pages, struct limits_way *fastest)
{
  double reads[N_WAYS][READS], best = 0;
  for (int i = 0; i < READS; i++) {
    for (size_t way = 0; way < N_WAYS; way++)
      reads[way][i] = read_as(l, huge_pages, way);
  }
  for (size_t way = 0; way < N_WAYS; way++) {
    double rate = bench_median(reads[way], READS);
    if (rate <= best)
      continue;
    best = rate;
    if (fastest != NULL)
      *fastest = ways[way].way;
  }
  return best;
}

struct products_create {
  struct limits_products *products;
  size_t copies;
  int status;
};

/* Runs on the thread which will use the memory, so that the memory is local to it. */
static void create_task(void *arg, unsigned thread, unsigned n_threads)
{
  struct products_create *c = arg;
  struct limits_products *p = c->products;
  (void)n_threads;
  int rc = limits_product_create(p->type, p->shape, c->copies, &p->of[thread]);
  if (rc != 0)
    __atomic_store_n(&c->status, rc, __ATOMIC_RELAXED);
}

void limits_products_destroy(const struct limits *l, struct limits_products *p)
{
  for (unsigned i = 0; p->of != NULL && i < lls_cpu_threads_count(l->threads); i++)
    limits_product_destroy(p->of[i]);
  free(p->of);
  p->of = NULL;
}

static void product_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct limits_products *p = arg;
  (void)n_threads;
  for (unsigned i = 0; i < p->repeat; i++)
    limits_product_run(p->of[thread]);
}

static double seconds_of(const struct limits *l, const struct limits_products *p)
{
  double start = bench_seconds();
  lls_cpu_run(l->threads, product_task, (void *)p);
  return bench_seconds() - start;
}

double limits_products_rate(struct limits *l, const struct limits_products *p)
{
  const struct limits_shape *s = &p->shape;
  double n = (double)p->repeat * lls_cpu_threads_count(l->threads);
  if (p->of == NULL)
    return 0;
  return 2 * n * (double)s->rows * (double)s->outputs * (double)s->inputs /
         seconds_of(l, p);
}

int limits_products_create(const struct limits *l, enum limits_type type,
                           struct limits_shape shape, size_t copies,
                           struct limits_products *p)
{
  *p = (struct limits_products){.type = type, .shape = shape, .repeat = 1};
  p->of = calloc(lls_cpu_threads_count(l->threads), sizeof *p->of);
  if (p->of == NULL)
    return -ENOMEM;
  struct products_create c = {.products = p, .copies = copies};
  lls_cpu_run(l->threads, create_task, &c);
  if (c.status != 0) {
    limits_products_destroy(l, p);
    return c.status == -ENOTSUP ? 0 : c.status;
  }
  while (seconds_of(l, p) < PRODUCT_SECONDS / 2)
    p->repeat *= 2;
  return 0;
}

double limits_product(struct limits *l, enum limits_type type)
{
  double rate = limits_products_rate(l, &l->products[type]);
  if (rate > l->best.product[type])
    l->best.product[type] = rate;
  return rate;
}

struct limits_rates limits_sample(struct limits *l)
{
  struct limits_rates rates;
  double products[PRODUCTS];
  rates.read = limits_read(l, true, NULL);
  for (enum limits_type t = 0; t < LIMITS_N_TYPES; t++) {
    for (int i = 0; i < PRODUCTS; i++)
      products[i] = limits_product(l, t);
    rates.product[t] = bench_median(products, PRODUCTS);
  }
  return rates;
}

double limits_matrix(const struct limits_rates *r, enum limits_type weights)
{
  double f32 = r->product[LIMITS_F32], bf16 = r->product[LIMITS_BF16];
  if (weights == LIMITS_INT8 && r->product[LIMITS_INT8] > 0)
    return r->product[LIMITS_INT8];
  return weights != LIMITS_F32 && bf16 > f32 ? bf16 : f32;
}

size_t limits_cold_bytes(size_t least)
{
  long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  size_t bytes = cache > 0 ? 2 * (size_t)cache : 0;
  bytes = bytes < MOST_BYTES ? bytes : MOST_BYTES;
  return (bytes > least ? bytes : least) / PIECE_BYTES * PIECE_BYTES;
}

int limits_create(struct lls_cpu_threads *threads, struct limits *l)
{
  *l = (struct limits){.threads = threads, .bytes = limits_cold_bytes(READ_BYTES)};
  void *huge = NULL, *small = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int rc = small == MAP_FAILED ? -ENOMEM : lls_cpu_memory_alloc(l->bytes, &huge);
  l->small = small == MAP_FAILED ? NULL : small;
  l->huge = huge;
  if (rc == 0) {
    madvise(small, l->bytes, MADV_NOHUGEPAGE);
    memset(small, 1, l->bytes);
    memset(huge, 1, l->bytes);
  }
  for (enum limits_type t = 0; rc == 0 && t < LIMITS_N_TYPES; t++)
    rc = limits_products_create(l, t, LIMITS_SHAPE, 1, &l->products[t]);
  if (rc != 0)
    limits_destroy(l);
  return rc;
}

void limits_destroy(struct limits *l)
{
  for (enum limits_type t = 0; t < LIMITS_N_TYPES; t++)
    limits_products_destroy(l, &l->products[t]);
  if (l->small != NULL)
    munmap(l->small, l->bytes);
  lls_cpu_memory_free(l->huge);
}
