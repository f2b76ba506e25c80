/* SPDX-License-Identifier: Apache-2.0 */
/* The emulator's cuBLASLt: D = alpha op(A) op(B) + beta C, column-major, sums
 * in double. FP8 from sm_89 on, with scales of each row of op(A) and column of op(B) on
 * Hopper alone. int8 with sums, and factors, of 32 bits.
 * If partial sums in the output's type are allowed, as they are by default, inputs are
 * cut in two, and the sum of each half is rounded to this type. Algorithms differ only
 * in time, and only if a test has set their times (simt_lt_offer): the time depends on
 * whether the L2 still holds the weights, which are A. Algorithms not set by a test
 * take no time.
 * */
#include "simt.h"

#include <algorithm>
#include <mutex>
#include <unistd.h>
#include <vector>

#include "cublasLt.h"

struct simt_lt {
};

struct simt_lt_matmul {
  cudaDataType_t scale_type = CUDA_R_32F; /* type of alpha and beta */
  int32_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void *bias = nullptr;
  int32_t scale_mode[2] = {0, 0}; /* of A and B */
  const float *scale[2] = {nullptr, nullptr};
};

struct simt_lt_layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t ld;
};

struct simt_lt_preference {
  uint64_t workspace;
  uint32_t alignment[4]; /* of A, B, C, D */
  uint32_t reductions;
};

namespace
{

double e4m3(uint8_t x)
{
  int exponent = x >> 3 & 15, fraction = x & 7;
  double size =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  size = (x & 127) == 127 ? NAN : size;
  return x & 128 ? -size : size;
}

double number(const void *data, cudaDataType_t type, size_t i)
{
  if (type == CUDA_R_8F_E4M3)
    return e4m3(((const uint8_t *)data)[i]);
  if (type == CUDA_R_8I)
    return ((const int8_t *)data)[i];
  if (type == CUDA_R_32I)
    return ((const int32_t *)data)[i];
  if (type == CUDA_R_32F)
    return ((const float *)data)[i];
  uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
  return __uint_as_float(bits);
}

void store(void *data, cudaDataType_t type, size_t i, double value)
{
  if (type == CUDA_R_32I) {
    ((int32_t *)data)[i] = (int32_t)value;
    return;
  }
  if (type == CUDA_R_32F) {
    ((float *)data)[i] = (float)value;
    return;
  }
  uint32_t bits = __float_as_uint((float)value);
  ((uint16_t *)data)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double rounded(double value, cudaDataType_t type)
{
  uint16_t bf16;
  if (type != CUDA_R_16BF)
    return value;
  store(&bf16, type, 0, value);
  return number(&bf16, type, 0);
}

/* ---- algorithms -------------------------------------------------------------------- */

std::mutex lock_of_algorithms;
std::vector<simt_lt_algorithm> offered = {{}};
std::vector<unsigned> products_of = {0};

struct cached {
  const void *weights;
  size_t bytes;
};
std::vector<cached> l2; /* the last used is the last */

/* Does the L2 hold these weights? Afterwards it does, and others are evicted if
 * necessary. */
bool in_l2(const void *weights, size_t bytes)
{
  bool found = false;
  size_t all = 0, kept = 0;
  for (size_t i = 0; i < l2.size() && !found; i++)
    if (l2[i].weights == weights) {
      l2.erase(l2.begin() + (ptrdiff_t)i);
      found = true;
    }
  l2.push_back({weights, bytes});
  while (kept < l2.size() && all + l2[l2.size() - 1 - kept].bytes <= simt::L2_BYTES)
    all += l2[l2.size() - 1 - kept++].bytes;
  l2.erase(l2.begin(), l2.end() - (ptrdiff_t)kept);
  return found;
}

/* Counts a product, and lets its time pass. */
void spend(cudaStream_t stream, size_t index, const void *weights, size_t bytes)
{
  std::lock_guard<std::mutex> l(lock_of_algorithms);
  bool near = in_l2(weights, bytes);
  if (index >= offered.size()) /* offered earlier */
    return;
  products_of[index]++;
  simt::pass(stream, near ? offered[index].us_from_l2 : offered[index].us);
  usleep(offered[index].sleep_us);
}

size_t bytes_of(cudaDataType_t type)
{
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8I ? 1
         : type == CUDA_R_32F || type == CUDA_R_32I  ? 4
                                                     : 2;
}

struct product {
  cudaStream_t stream;
  size_t algorithm;
  simt_lt_matmul matmul;
  simt_lt_layout a, b, d;
  const void *a_data, *b_data, *c_data;
  void *d_data;
  double alpha, beta;
  bool halves; /* sum each half of the inputs, rounded */

  /* Returns n rows or columns of a factor as numbers, one after the other. */
  static std::vector<double> numbers(const void *data, const simt_lt_layout &of,
                                     uint64_t n, uint64_t depth, bool in_columns)
  {
    size_t step = in_columns ? 1 : (size_t)of.ld, next = in_columns ? (size_t)of.ld : 1;
    std::vector<double> out(n * depth);
    for (uint64_t i = 0; i < n; i++)
      for (uint64_t j = 0; j < depth; j++)
        out[i * depth + j] = number(data, of.type, i * next + j * step);
    return out;
  }

  bool operator()() const
  {
    spend(stream, algorithm, a_data, a.columns * (size_t)a.ld * bytes_of(a.type));
    uint64_t depth = matmul.trans_a ? a.rows : a.columns;
    const auto a_rows = numbers(a_data, a, d.rows, depth, matmul.trans_a);
    const auto b_columns = numbers(b_data, b, d.columns, depth, !matmul.trans_b);
    for (uint64_t column = 0; column < d.columns; column++)
      for (uint64_t row = 0; row < d.rows; row++) {
        const double *of_a = &a_rows[row * depth], *of_b = &b_columns[column * depth];
        double sum = 0;
        for (uint64_t i = 0; i < depth; i++) {
          if (halves && i == depth / 2)
            sum = rounded(sum, d.type);
          sum += of_a[i] * of_b[i];
        }
        size_t at = column * (size_t)d.ld + row;
        if (matmul.scale_mode[0] == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F)
          sum *= (double)matmul.scale[0][row] * (double)matmul.scale[1][column];
        sum *= alpha;
        if (beta != 0)
          sum += beta * number(c_data, d.type, at);
        if (matmul.epilogue & CUBLASLT_EPILOGUE_BIAS)
          sum += number(matmul.bias, d.type, row);
        if ((matmul.epilogue & CUBLASLT_EPILOGUE_RELU) && sum < 0)
          sum = 0;
        store(d_data, d.type, at, sum);
      }
    return true;
  }
};

} // namespace

extern "C" {

const char *cublasLtGetStatusString(cublasStatus_t rc)
{
  return rc == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS"
                                     : "CUBLAS_STATUS_INVALID_VALUE";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
  *out = new simt_lt;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t lt)
{
  delete lt;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t,
                                        cudaDataType_t scale)
{
  *out = new simt_lt_matmul;
  (*out)->scale_type = scale;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmul)
{
  delete matmul;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t)
{
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    memcpy(&matmul->trans_a, value, 4);
    break;
  case CUBLASLT_MATMUL_DESC_TRANSB:
    memcpy(&matmul->trans_b, value, 4);
    break;
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    memcpy(&matmul->epilogue, value, 4);
    break;
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    memcpy(&matmul->bias, value, sizeof matmul->bias);
    break;
  case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
  case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
    memcpy(&matmul->scale[attribute - CUBLASLT_MATMUL_DESC_A_SCALE_POINTER], value,
           sizeof matmul->scale[0]);
    break;
  case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
  case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
    memcpy(&matmul->scale_mode[attribute - CUBLASLT_MATMUL_DESC_A_SCALE_MODE], value, 4);
    break;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out,
                                          cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t ld)
{
  if (ld < (int64_t)rows)
    return CUBLAS_STATUS_INVALID_VALUE;
  *out = new simt_lt_layout{type, rows, columns, ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
  *out = new simt_lt_preference{
      0, {256, 256, 256, 256}, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                     cublasLtMatmulPreferenceAttributes_t attribute,
                                     const void *value, size_t size)
{
  bool workspace = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  void *to =
      workspace ? (void *)&preference->workspace
      : attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK
          ? &preference->reductions
          : &preference
                 ->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
  if (size != (workspace ? sizeof preference->workspace : sizeof(uint32_t)))
    return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t matmul,
                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                               cublasLtMatmulPreference_t preference, int wanted,
                               cublasLtMatmulHeuristicResult_t *out, int *found)
{
  uint64_t rows = matmul->trans_a ? a->columns : a->rows;
  uint64_t depth = matmul->trans_a ? a->rows : a->columns;
  uint64_t columns = matmul->trans_b ? b->rows : b->columns;
  bool fits = rows == d->rows && columns == d->columns && c->rows == d->rows &&
              c->columns == d->columns && c->type == d->type && a->type == b->type &&
              depth == (matmul->trans_b ? b->columns : b->rows);
  bool e4m3 = a->type == CUDA_R_8F_E4M3;
  int32_t outer = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  bool int8 = a->type == CUDA_R_8I;
  bool fours = matmul->trans_a && !matmul->trans_b && rows % 4 == 0 && depth % 4 == 0 &&
               a->ld % 4 == 0 && b->ld % 4 == 0 && d->ld % 4 == 0;
  bool whole = matmul->scale_type == CUDA_R_32I && d->type == CUDA_R_32I &&
               matmul->epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  bool sixteens = matmul->trans_a && !matmul->trans_b && a->ld % 16 == 0 &&
                  b->ld % 16 == 0 && rows % 16 == 0;
  bool outer_a = matmul->scale_mode[0] == outer, outer_b = matmul->scale_mode[1] == outer;
  bool floats = outer_a == outer_b &&
                (outer_a ? simt::architecture() == 90 && d->type == CUDA_R_16BF
                         : simt::architecture() >= 89);
  bool can = int8 ? fours && whole : !e4m3 || (sixteens && floats);
  std::lock_guard<std::mutex> l(lock_of_algorithms);
  *found = fits && can ? std::min(wanted, (int)offered.size()) : 0;
  for (int n = 0; n < *found; n++, out++) {
    *out = {};
    for (int i = 0; i < 4; i++) /* which the algorithm counts on */
      out->algo.data[i] = preference->alignment[i];
    out->algo.data[4] = preference->reductions & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    out->algo.data[5] = (uint64_t)n;
    out->algo.data[6] = offered[(size_t)n].fails != 0;
  }
  return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t matmul, const void *alpha,
               const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
               cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
               cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t d_layout,
               const cublasLtMatmulAlgo_t *algo, void *, size_t, cudaStream_t stream)
{
  const void *const matrices[] = {a, b, c, d};
  for (int i = 0; i < 4; i++)
    if ((uintptr_t)matrices[i] % algo->data[i] != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  if (!simt::is_current(stream) || algo->data[6] != 0)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  bool whole = matmul->scale_type == CUDA_R_32I;
  product p{stream,
            algo->data[5],
            *matmul,
            *a_layout,
            *b_layout,
            *d_layout,
            a,
            b,
            c,
            d,
            whole ? (double)*(const int32_t *)alpha : (double)*(const float *)alpha,
            whole ? (double)*(const int32_t *)beta : (double)*(const float *)beta,
            algo->data[4] != 0};
  simt::enqueue(stream, p);
  return CUBLAS_STATUS_SUCCESS;
}

void simt_lt_offer(const struct simt_lt_algorithm *list, int n)
{
  std::lock_guard<std::mutex> l(lock_of_algorithms);
  offered.assign(list, list + n);
  if (n == 0)
    offered = {{}};
  products_of.assign(offered.size(), 0);
  l2.clear();
}

unsigned simt_lt_products(int i)
{
  std::lock_guard<std::mutex> l(lock_of_algorithms);
  return products_of[(size_t)i];
}

} // extern "C"
