/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A matrix product by oneDNN, with every operand in the layout which oneDNN prefers. Only
 * the rate matters: all numbers are 1 in f32, 0 in other types.
 */
#include "bench/limits_product.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/memory.h"

struct limits_product {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_desc_t desc;
  dnnl_primitive_t primitive;
  dnnl_exec_arg_t args[3]; /* the matrices a, b and c */
  void *data[3];
  size_t b_bytes, n_b, next_b; /* bytes of a copy of b, copies, index of the next */
};

static const dnnl_data_type_t types[][3] = {
    [LIMITS_F32] = {dnnl_f32, dnnl_f32, dnnl_f32},
    [LIMITS_BF16] = {dnnl_bf16, dnnl_bf16, dnnl_f32},
    [LIMITS_INT8] = {dnnl_u8, dnnl_s8, dnnl_s32},
};

static int describe(struct limits_product *p, enum limits_type type,
                    struct limits_shape shape)
{
  const dnnl_dim_t m = (dnnl_dim_t)shape.rows, n = (dnnl_dim_t)shape.outputs,
                   k = (dnnl_dim_t)shape.inputs;
  const dnnl_dims_t dims[3] = {{m, k}, {k, n}, {m, n}};
  dnnl_memory_desc_t memory[3];
  dnnl_matmul_desc_t matmul;
  if (dnnl_engine_create(&p->engine, dnnl_cpu, 0) != dnnl_success ||
      dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags) !=
          dnnl_success)
    return -ENOMEM;
  for (int i = 0; i < 3; i++) {
    dnnl_format_tag_t tag = i == 1 ? dnnl_format_tag_any : dnnl_ab;
    if (dnnl_memory_desc_init_by_tag(&memory[i], 2, dims[i], types[type][i], tag) !=
        dnnl_success)
      return -ENOTSUP;
  }
  if (dnnl_matmul_desc_init(&matmul, &memory[0], &memory[1], NULL, &memory[2]) !=
          dnnl_success ||
      dnnl_primitive_desc_create(&p->desc, &matmul, NULL, p->engine, NULL) !=
          dnnl_success)
    return -ENOTSUP;
  return dnnl_primitive_create(&p->primitive, p->desc) == dnnl_success ? 0 : -ENOMEM;
}

static int allocate(struct limits_product *p, enum limits_type type)
{
  static const dnnl_query_t what[] = {dnnl_query_src_md, dnnl_query_weights_md,
                                      dnnl_query_dst_md};
  static const int argument[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  for (int i = 0; i < 3; i++) {
    const dnnl_memory_desc_t *memory = dnnl_primitive_desc_query_md(p->desc, what[i], 0);
    size_t bytes = dnnl_memory_desc_get_size(memory);
    if (i == 1) {
      p->b_bytes = (bytes + 4095) & ~(size_t)4095;
      bytes = p->b_bytes * p->n_b;
    }
    if (lls_cpu_memory_alloc(bytes, &p->data[i]) != 0)
      return -ENOMEM;
    memset(p->data[i], 0, bytes);
    for (size_t k = 0; type == LIMITS_F32 && k < bytes / sizeof(float); k++)
      ((float *)p->data[i])[k] = 1;
    p->args[i].arg = argument[i];
    if (dnnl_memory_create(&p->args[i].memory, memory, p->engine, p->data[i]) !=
        dnnl_success)
      return -ENOMEM;
  }
  return 0;
}

/* Limits oneDNN to one thread, with whichever OpenMP library it is linked, if any. */
static void use_one_thread(void)
{
  void (*set)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "omp_set_num_threads");
  if (set != NULL)
    set(1);
}

int limits_product_create(enum limits_type type, struct limits_shape shape, size_t n,
                          struct limits_product **out)
{
  struct limits_product *p = calloc(1, sizeof *p);
  if (p == NULL)
    return -ENOMEM;
  p->n_b = n;
  use_one_thread(); /* before the primitive is created, which depends on it */
  int rc = describe(p, type, shape);
  if (rc == 0)
    rc = allocate(p, type);
  if (rc != 0) {
    limits_product_destroy(p);
    return rc;
  }
  *out = p;
  return 0;
}

void limits_product_run(struct limits_product *p)
{
  use_one_thread();
  dnnl_memory_set_data_handle(p->args[1].memory,
                              (char *)p->data[1] + p->next_b * p->b_bytes);
  p->next_b = (p->next_b + 1) % p->n_b;
  dnnl_primitive_execute(p->primitive, p->stream, 3, p->args);
  dnnl_stream_wait(p->stream);
}

void limits_product_destroy(struct limits_product *p)
{
  if (p == NULL)
    return;
  for (int i = 0; i < 3; i++) {
    if (p->args[i].memory != NULL)
      dnnl_memory_destroy(p->args[i].memory);
    lls_cpu_memory_free(p->data[i]);
  }
  if (p->primitive != NULL)
    dnnl_primitive_destroy(p->primitive);
  if (p->desc != NULL)
    dnnl_primitive_desc_destroy(p->desc);
  if (p->stream != NULL)
    dnnl_stream_destroy(p->stream);
  if (p->engine != NULL)
    dnnl_engine_destroy(p->engine);
  free(p);
}
