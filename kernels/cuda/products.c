/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products by cuBLASLt. Row-major y = x W^T is column-major y^T = W x^T, so W
 * (outputs, inputs) is passed as transposed and nothing is moved. Sums are f32,
 * including partial sums over some of the inputs (split-K). f32 models are multiplied
 * in f32, not in tf32. Partial sums in the output's bf16, cuBLASLt's default, are
 * forbidden: with them the error on an H200 was .9 units in the last place (64 inputs).
 * Where rows do not begin at multiples of 16 bytes, some kernels still round twice
 * (error there: .7 with 515 inputs); models have no such rows.
 *
 * The descriptors for cuBLASLt and the algorithm are kept for each shape. Rows are
 * padded (ops.h), so shapes come back. The algorithm is the first of cuBLASLt's
 * heuristic, or the one that was chosen by timing (algorithms.c).
 */
#include "kernels/cuda/products.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORKSPACE ((size_t)32 << 20) /* NVIDIA's recommendation for Hopper */

static int fail_product(struct lls_error *err, cublasStatus_t rc, const char *what)
{
  if (rc == CUBLAS_STATUS_SUCCESS)
    return 0;
  return lls_fail(err, -EIO, "cuBLASLt cannot %s: %s", what, cublasLtGetStatusString(rc));
}

int lls_cuda_products_create(struct lls_cuda_products **out, struct lls_error *err)
{
  struct lls_cuda_products *p = calloc(1, sizeof *p);
  if (p == NULL)
    return lls_fail(err, -ENOMEM, "no memory for matrix products");
  *out = p; /* lls_cuda_products_destroy frees whatever exists of it */
  const char *algorithms = getenv("LLS_CUDA_ALGORITHMS");
  p->timed = algorithms == NULL || strcmp(algorithms, "first") != 0;
  size_t workspace = WORKSPACE;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  int rc = fail_product(err, cublasLtCreate(&p->lt), "start");
  if (rc == 0)
    rc = fail_product(err, cublasLtMatmulPreferenceCreate(&p->preference), "start");
  if (rc == 0)
    rc = fail_product(err,
                      cublasLtMatmulPreferenceSetAttribute(
                          p->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                          &workspace, sizeof workspace),
                      "take a workspace");
  if (rc == 0)
    rc = fail_product(err,
                      cublasLtMatmulPreferenceSetAttribute(
                          p->preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                          &reductions, sizeof reductions),
                      "add up in f32");
  if (rc == 0 && lls_cuda_malloc(WORKSPACE, &p->workspace) < 0)
    rc = lls_fail(err, -ENOMEM, "no memory on the GPU for cuBLASLt's workspace");
  return rc;
}

static void free_shape(struct lls_cuda_product_shape *s)
{
  if (s->matmul != NULL)
    cublasLtMatmulDescDestroy(s->matmul);
  if (s->w != NULL)
    cublasLtMatrixLayoutDestroy(s->w);
  if (s->x != NULL)
    cublasLtMatrixLayoutDestroy(s->x);
  if (s->y != NULL)
    cublasLtMatrixLayoutDestroy(s->y);
  memset(s, 0, sizeof *s);
}

static void free_shapes(struct lls_cuda_products *p)
{
  for (uint32_t i = 0; i < LLS_CUDA_MAX_SHAPES; i++)
    free_shape(&p->shapes[i]);
  p->n_shapes = 0;
}

void lls_cuda_products_destroy(struct lls_cuda_products *p)
{
  if (p == NULL)
    return;
  free_shapes(p);
  cudaFree(p->workspace);
  if (p->preference != NULL)
    cublasLtMatmulPreferenceDestroy(p->preference);
  if (p->lt != NULL)
    cublasLtDestroy(p->lt);
  free(p);
}

/* ---- shapes ------------------------------------------------------------------------ */

static cublasStatus_t set(cublasLtMatmulDesc_t matmul,
                          cublasLtMatmulDescAttributes_t what, int32_t value)
{
  return cublasLtMatmulDescSetAttribute(matmul, what, &value, sizeof value);
}

/* Sets a scale for every output and every row, which only Hopper supports. */
static cublasStatus_t scale_both(cublasLtMatmulDesc_t matmul)
{
#if CUBLAS_VERSION >= 120900
  int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  cublasStatus_t rc = set(matmul, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
  return rc != CUBLAS_STATUS_SUCCESS
             ? rc
             : set(matmul, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
#else
  (void)matmul;
  return CUBLAS_STATUS_NOT_SUPPORTED;
#endif
}

static cublasStatus_t describe(struct lls_cuda_product_shape *s, cudaDataType_t numbers)
{
  const struct lls_cuda_product_key *k = &s->key;
  cudaDataType_t in = k->e4m3 ? CUDA_R_8F_E4M3 : k->int8 ? CUDA_R_8I : numbers;
  cudaDataType_t result = k->int8 ? CUDA_R_32I : k->f32 ? CUDA_R_32F : numbers;
  cublasStatus_t rc = cublasLtMatmulDescCreate(
      &s->matmul, k->int8 ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
      k->int8 ? CUDA_R_32I : CUDA_R_32F);
  if (rc == CUBLAS_STATUS_SUCCESS)
    rc = set(s->matmul, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (rc == CUBLAS_STATUS_SUCCESS)
    rc = set(s->matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, (int32_t)k->epilogue);
  if (rc == CUBLAS_STATUS_SUCCESS && k->scaled)
    rc = scale_both(s->matmul);
  if (rc == CUBLAS_STATUS_SUCCESS)
    rc = cublasLtMatrixLayoutCreate(&s->w, in, k->inputs, k->outputs, (int64_t)k->inputs);
  if (rc == CUBLAS_STATUS_SUCCESS)
    rc = cublasLtMatrixLayoutCreate(&s->x, in, k->inputs, k->n_rows, (int64_t)k->inputs);
  if (rc == CUBLAS_STATUS_SUCCESS)
    rc = cublasLtMatrixLayoutCreate(&s->y, result, k->outputs, k->n_rows,
                                    (int64_t)k->stride);
  return rc;
}

/* Sets the preferences of the heuristic. cuBLASLt assumes 256-byte aligned matrices
 * unless the preference sets another alignment. */
static cublasStatus_t prefer(const struct lls_cuda_products *p, uint32_t alignment)
{
  static const cublasLtMatmulPreferenceAttributes_t of[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  cublasStatus_t rc = CUBLAS_STATUS_SUCCESS;
  for (size_t i = 0; rc == CUBLAS_STATUS_SUCCESS && i < sizeof of / sizeof *of; i++)
    rc = cublasLtMatmulPreferenceSetAttribute(p->preference, of[i], &alignment,
                                              sizeof alignment);
  return rc;
}

cublasStatus_t lls_cuda_product_algorithms(const struct lls_cuda_products *p,
                                           const struct lls_cuda_product_shape *s,
                                           int most, cublasLtMatmulHeuristicResult_t *out,
                                           int *found)
{
  *found = 0;
  cublasStatus_t rc = prefer(p, s->key.alignment);
  if (rc == CUBLAS_STATUS_SUCCESS)
    rc = cublasLtMatmulAlgoGetHeuristic(p->lt, s->matmul, s->w, s->x, s->y, s->y,
                                        p->preference, most, out, found);
  return rc == CUBLAS_STATUS_SUCCESS && *found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : rc;
}

const struct lls_cuda_choice *
lls_cuda_product_choice(const struct lls_cuda_products *p,
                        const struct lls_cuda_product_key *key)
{
  for (uint32_t i = 0; i < p->n_choices; i++)
    if (memcmp(&p->choices[i].key, key, sizeof *key) == 0)
      return &p->choices[i];
  return NULL;
}

static cublasStatus_t choose(const struct lls_cuda_products *p,
                             struct lls_cuda_product_shape *s)
{
  const struct lls_cuda_choice *timed = lls_cuda_product_choice(p, &s->key);
  cublasLtMatmulHeuristicResult_t first;
  int found;
  if (timed != NULL) {
    s->algo = timed->algo;
    return CUBLAS_STATUS_SUCCESS;
  }
  cublasStatus_t rc = lls_cuda_product_algorithms(p, s, 1, &first, &found);
  if (rc == CUBLAS_STATUS_SUCCESS)
    s->algo = first.algo;
  return rc;
}

/* FNV-1a */
static uint32_t hash(const struct lls_cuda_product_key *k)
{
  const unsigned char *bytes = (const unsigned char *)k;
  uint32_t h = UINT32_C(0x811c9dc5);
  for (size_t i = 0; i < sizeof *k; i++)
    h = (h ^ bytes[i]) * UINT32_C(0x01000193);
  return h;
}

static struct lls_cuda_product_shape *place_of(struct lls_cuda_products *p,
                                               const struct lls_cuda_product_key *key)
{
  uint32_t i = hash(key) % LLS_CUDA_MAX_SHAPES;
  while (p->shapes[i].key.used && memcmp(&p->shapes[i].key, key, sizeof *key) != 0)
    i = (i + 1) % LLS_CUDA_MAX_SHAPES;
  return &p->shapes[i];
}

struct lls_cuda_product_shape *
lls_cuda_product_find(struct lls_cuda_device *d, const struct lls_cuda_product_key *key)
{
  struct lls_cuda_products *p = d->products;
  struct lls_cuda_product_shape *s = place_of(p, key);
  if (s->key.used)
    return s->none ? NULL : s;
  /* an unusually large number of shapes: discard them and begin again */
  if (p->n_shapes >= LLS_CUDA_MAX_SHAPES / 2) {
    free_shapes(p);
    s = place_of(p, key);
  }
  s->key = *key;
  p->n_shapes++;
  cublasStatus_t rc =
      describe(s, lls_cuda_numbers(d) == LLS_F32 ? CUDA_R_32F : CUDA_R_16BF);
  if (rc == CUBLAS_STATUS_SUCCESS)
    rc = choose(p, s);
  if (rc == CUBLAS_STATUS_SUCCESS)
    return s;
  if (key->e4m3 || key->int8) {
    s->none = true;
    return NULL;
  }
  lls_cuda_step_fail(d, -EIO,
                     "cuBLASLt has no way to multiply %llu rows by %llu x %llu: %s",
                     (unsigned long long)key->n_rows, (unsigned long long)key->outputs,
                     (unsigned long long)key->inputs, cublasLtGetStatusString(rc));
  free_shape(s);
  p->n_shapes--;
  return NULL;
}

/* ---- running ----------------------------------------------------------------------- */

/* Returns the largest power of two, up to a limit, that the addresses of all three
 * matrices are a multiple of. */
static uint32_t alignment_of(const struct lls_cuda_product *a)
{
  uintptr_t all = (uintptr_t)a->w | (uintptr_t)a->x | (uintptr_t)a->y;
  uint32_t alignment = 256;
  while (all % alignment != 0)
    alignment /= 2;
  return alignment;
}

struct lls_cuda_product_key lls_cuda_product_key(const struct lls_cuda_product *a)
{
  struct lls_cuda_product_key key;
  memset(&key, 0, sizeof key);
  bool bias = a->bias != NULL;
  key.outputs = a->outputs;
  key.inputs = a->inputs;
  key.n_rows = a->n_rows;
  key.stride = a->stride;
  key.add = a->add;
  key.f32 = a->f32;
  key.e4m3 = a->e4m3;
  key.scaled = a->w_scales != NULL;
  key.int8 = a->int8;
  key.epilogue = a->relu ? (bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU)
                         : (bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
  key.alignment = alignment_of(a);
  key.used = 1;
  return key;
}

static cublasStatus_t point(cublasLtMatmulDesc_t matmul,
                            cublasLtMatmulDescAttributes_t what, const void *at)
{
  return at == NULL ? CUBLAS_STATUS_SUCCESS
                    : cublasLtMatmulDescSetAttribute(matmul, what, &at, sizeof at);
}

cublasStatus_t lls_cuda_multiply(const struct lls_cuda_device *d,
                                 const struct lls_cuda_product_shape *s,
                                 const cublasLtMatmulAlgo_t *algo,
                                 const struct lls_cuda_product *a)
{
  const float one = 1, beta = a->add ? 1 : 0;
  /* int8 takes alpha and beta in the type of its sums */
  const int32_t whole_one = 1, nothing = 0;
  const struct lls_cuda_products *p = d->products;
  cublasStatus_t rc = point(s->matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, a->bias);
  if (rc == CUBLAS_STATUS_SUCCESS)
    rc = point(s->matmul, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, a->w_scales);
  if (rc == CUBLAS_STATUS_SUCCESS)
    rc = point(s->matmul, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, a->x_scales);
  if (rc != CUBLAS_STATUS_SUCCESS)
    return rc;
  return cublasLtMatmul(p->lt, s->matmul, a->int8 ? (const void *)&whole_one : &one, a->w,
                        s->w, a->x, s->x, a->int8 ? (const void *)&nothing : &beta, a->y,
                        s->y, a->y, s->y, algo, p->workspace, WORKSPACE, d->stream);
}

bool lls_cuda_run_product(struct lls_cuda_device *d, const struct lls_cuda_product *a)
{
  struct lls_cuda_product_key key = lls_cuda_product_key(a);
  const struct lls_cuda_product_shape *s = lls_cuda_product_find(d, &key);
  if (s == NULL)
    return d->status != 0;
  cublasStatus_t rc = lls_cuda_multiply(d, s, &s->algo, a);
  if (rc != CUBLAS_STATUS_SUCCESS)
    lls_cuda_step_fail(d, -EIO, "cuBLASLt failed to multiply %u rows by %u x %u: %s",
                       a->n_rows, a->outputs, a->inputs, cublasLtGetStatusString(rc));
  return true;
}
