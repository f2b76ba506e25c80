/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hnswlib behind C. Everything it throws ends here.
 *
 * Its own inner product is compiled for one instruction set; this one is for three and
 * chosen when the plugin is loaded. Sixteen sums side by side are what a compiler makes
 * vectors of without being allowed to reorder additions.
 *
 * M = 16 links, a width of 100 while building and 32 while searching, in each of the two
 * generations: bench/predictor/lookup finds 0.990 of the 5 nearest among 100,000 answers;
 * a width of 64 finds them all and takes twice the time.
 */
#include "plugins/predictors/retrieval/index.h"

/* hnswlib fetches ahead by reading the number behind the last of a full list, three bytes
 * of which are behind its allocation: AddressSanitizer must not see that. */
#ifdef __SANITIZE_ADDRESS__
#define NO_MANUAL_VECTORIZATION
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wreorder"
#include <hnswlib/hnswlib.h>
#pragma GCC diagnostic pop

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#define LINKS        16
#define BUILD_WIDTH  100
#define SEARCH_WIDTH 32
#define LANES        16

#if defined __x86_64__ && defined __GNUC__ && !defined __clang__ &&                      \
    !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#define FOR_EACH_ISA                                                                     \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_ISA
#endif

FOR_EACH_ISA static float distance(const void *left, const void *right, const void *size)
{
  const float *a = static_cast<const float *>(left);
  const float *b = static_cast<const float *>(right);
  size_t n = *static_cast<const size_t *>(size), i = 0;
  float sums[LANES] = {0}, sum = 0;
  for (; i + LANES <= n; i += LANES)
    for (size_t k = 0; k < LANES; k++)
      sums[k] += a[i + k] * b[i + k];
  for (; i < n; i++)
    sum += a[i] * b[i];
  for (size_t k = 0; k < LANES; k++)
    sum += sums[k];
  return 1 - sum;
}

namespace
{
class cosine_space : public hnswlib::SpaceInterface<float>
{
  size_t dims;

public:
  explicit cosine_space(size_t n) : dims(n)
  {
  }
  size_t get_data_size() override
  {
    return dims * sizeof(float);
  }
  hnswlib::DISTFUNC<float> get_dist_func() override
  {
    return distance;
  }
  void *get_dist_func_param() override
  {
    return &dims;
  }
  ~cosine_space()
  {
  }
};
} // namespace

struct graph {
  cosine_space space;
  hnswlib::HierarchicalNSW<float> links;
  uint32_t n, capacity, dims;
  graph(uint32_t d, uint32_t c)
      : space(d), links(&space, c, LINKS, BUILD_WIDTH), n(0), capacity(c), dims(d)
  {
    links.setEf(SEARCH_WIDTH);
  }
};

struct graph *index_create(uint32_t dims, uint32_t capacity)
{
  try {
    return new graph(dims, capacity);
  } catch (...) {
    return nullptr;
  }
}

void index_destroy(struct graph *x)
{
  delete x;
}

int index_add(struct graph *x, const float *vector)
{
  if (x->n == x->capacity)
    return -ENOSPC;
  try {
    x->links.addPoint(vector, x->n);
  } catch (...) {
    return -ENOMEM;
  }
  x->n++;
  return 0;
}

uint32_t index_search(const struct graph *x, const float *vector, uint32_t k,
                      struct found *out)
{
  if (x->n == 0)
    return 0;
  try {
    auto worst_first = x->links.searchKnn(vector, std::min(k, x->n));
    uint32_t n = static_cast<uint32_t>(worst_first.size());
    for (uint32_t i = n; i-- > 0; worst_first.pop())
      out[i] = {1 - worst_first.top().first,
                static_cast<uint32_t>(worst_first.top().second)};
    return n;
  } catch (...) {
    return 0;
  }
}

void index_vector(const struct graph *x, uint32_t number, float *vector)
{
  hnswlib::tableint at = x->links.label_lookup_.at(number);
  std::memcpy(vector, x->links.getDataByInternalId(at), x->dims * sizeof(float));
}
