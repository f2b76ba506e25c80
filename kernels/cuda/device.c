/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating, describing and destroying the CUDA device; see cuda.h. Activations are f32
 * for models in f32 and bf16 for all others.
 */
#include "kernels/cuda/device.h"
#include "core/ranks/ranks.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/products.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A list, so that a new one is refused by its name. */
#define EXTRAS                                                                           \
  (LLS_EXTRA_SQUARED_RELU | LLS_EXTRA_XIELU | LLS_EXTRA_ALIBI | LLS_EXTRA_QUERY_GROWTH | \
   LLS_EXTRA_ROUTER | LLS_EXTRA_SHARED_GATE | LLS_EXTRA_LATENT | LLS_EXTRA_HEAD_SIZES |  \
   LLS_EXTRA_LAYER_INPUTS | LLS_EXTRA_STATES | LLS_EXTRA_CHUNKS |                        \
   LLS_EXTRA_PLAIN_EXPERTS | LLS_EXTRA_STREAMS)

#define INPUT_BYTES ((size_t)256 << 10) /* initial size; the buffer grows */

static void destroy_event(cudaEvent_t event)
{
  if (event != NULL)
    cudaEventDestroy(event);
}

void lls_cuda_destroy(struct lls_device *device)
{
  struct lls_cuda_device *d = lls_cuda(device);
  if (d == NULL)
    return;
  lls_cuda_use(d);
  if (d->stream != NULL)
    cudaStreamSynchronize(d->stream);
  if (d->copies != NULL)
    cudaStreamSynchronize(d->copies);
  if (d->sends != NULL)
    cudaStreamSynchronize(d->sends);
  /* graphs contain the communicator, which is destroyed next */
  lls_cuda_ops_destroy(d->ops);
  lls_cuda_ranks_destroy(d);
  lls_cuda_links_destroy(d->links);
  lls_cuda_products_destroy(d->products);
  lls_cuda_inputs_destroy(&d->inputs);
  lls_cuda_inputs_destroy(&d->draws);
  lls_cuda_inputs_destroy(&d->adapted.inputs);
  cudaFree(d->entries_at);
  for (int i = 0; i < 2; i++) {
    cudaFreeHost(d->staging[i]);
    cudaFree(d->unconverted[i]);
    destroy_event(d->staging_sent[i]);
  }
  cudaFreeHost(d->pull_staging);
  cudaFree(d->squares);
  cudaFree(d->angles);
  cudaFree(d->states.states);
  cudaFree(d->states.finished);
  cudaFree(d->few.parts);
  cudaFree(d->few.finished);
  cudaFree(d->widened);
  cudaFree(d->sample_room);
  cudaFreeHost(d->results);
  free(d->count);
  destroy_event(d->step_done);
  destroy_event(d->reached);
  destroy_event(d->copies_before);
  destroy_event(d->copies_done);
  destroy_event(d->draws_sent);
  if (d->stream != NULL)
    cudaStreamDestroy(d->stream);
  if (d->copies != NULL)
    cudaStreamDestroy(d->copies);
  if (d->packs != NULL)
    cudaStreamDestroy(d->packs);
  if (d->sends != NULL)
    cudaStreamDestroy(d->sends);
  free(d);
}

void lls_cuda_identify(struct lls_device *device, char *text, size_t size)
{
  const struct lls_cuda_device *d = lls_cuda(device);
  snprintf(text, size, "cuda: %s (sm_%d%d, %d multiprocessors), %s", d->properties.name,
           d->properties.major, d->properties.minor, d->properties.multiProcessorCount,
           lls_cuda_numbers(d) == LLS_F32 ? "f32" : "bf16");
}

void lls_cuda_describe(struct lls_device *device, char *text, size_t size)
{
  size_t total = 0, available = 0, n;
  lls_cuda_memory(device, &total, &available);
  lls_cuda_identify(device, text, size);
  n = strlen(text);
  snprintf(text + n, size - n, ", %.1f of %.1f GB free", (double)available * 1e-9,
           (double)total * 1e-9);
}

static bool is_set(const char *variable, bool otherwise)
{
  const char *value = getenv(variable);
  return value == NULL ? otherwise : value[0] != '\0' && strcmp(value, "0") != 0;
}

/* Chooses the GPU: the configured one among those that CUDA_VISIBLE_DEVICES leaves, or
 * a rank's own. A launcher may have left each rank only one. */
static int find_gpu(struct lls_cuda_device *d, struct lls_error *err)
{
  int n = 0, rc = cudaGetDeviceCount(&n);
  if (rc != cudaSuccess || n == 0)
    return lls_fail(err, -ENODEV, "no GPU: %s",
                    rc != cudaSuccess ? cudaGetErrorString((cudaError_t)rc)
                                      : "CUDA finds none");
  const struct lls_ranks *ranks = d->options.ranks;
  int gpu = ranks != NULL ? (n > 1 ? (int)ranks->local_rank : 0) : (int)d->options.index;
  if (gpu >= n && ranks == NULL)
    return lls_fail(err, -ENODEV,
                    "GPU %d is configured, counted from 0: this machine has %d", gpu, n);
  if (gpu >= n)
    return lls_fail(err, -ENODEV, "rank %u is the %u. on this machine, which has %d GPUs",
                    ranks->rank, ranks->local_rank + 1, n);
  d->gpu = gpu;
  rc = cudaSetDevice(gpu);
  if (rc == cudaSuccess)
    rc = cudaGetDeviceProperties(&d->properties, gpu);
  if (rc != cudaSuccess)
    return lls_fail(err, -ENODEV, "GPU %d cannot be used: %s", gpu,
                    cudaGetErrorString((cudaError_t)rc));
  if (d->properties.major < 8)
    return lls_fail(err, -ENODEV, "%s is of sm_%d%d: sm_80 (Ampere) or newer is needed",
                    d->properties.name, d->properties.major, d->properties.minor);
  d->few.numbers =
      lls_cuda_numbers(d) == LLS_BF16 && is_set("LLS_CUDA_FEW", d->properties.major == 9);
  d->few.blocks = 2 * (uint32_t)d->properties.multiProcessorCount;
  d->few.shared_bytes = d->properties.sharedMemPerMultiprocessor;
  return 0;
}

static int create_streams(struct lls_cuda_device *d, struct lls_error *err)
{
  cudaEvent_t *const events[] = {&d->step_done,      &d->reached,    &d->copies_before,
                                 &d->copies_done,    &d->draws_sent, &d->staging_sent[0],
                                 &d->staging_sent[1]};
  int rc = cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking);
  if (rc == cudaSuccess)
    rc = cudaStreamCreateWithFlags(&d->copies, cudaStreamNonBlocking);
  if (rc == cudaSuccess)
    rc = cudaStreamCreateWithFlags(&d->sends, cudaStreamNonBlocking);
  for (size_t i = 0; i < sizeof events / sizeof *events && rc == cudaSuccess; i++)
    rc = cudaEventCreateWithFlags(events[i], cudaEventDisableTiming);
  return lls_cuda_check(rc, err, "making streams");
}

/* Returns the bytes for the states of split contexts, for 128 dims a head: see
 * plan.c. */
static size_t state_bytes(const struct lls_cuda_device *d)
{
  return 32 * (size_t)d->properties.multiProcessorCount * LLS_CUDA_STATE_FLOATS(128) *
         sizeof(float);
}

/* Returns the bytes of the counters: one for each state, if states have the smallest
 * size. */
static size_t finished_bytes(const struct lls_cuda_device *d)
{
  return state_bytes(d) / LLS_CUDA_STATE_FLOATS(64);
}

/* Returns the bytes of the sums of the two tiles that a block may share with other
 * blocks. */
static size_t few_bytes(const struct lls_cuda_device *d)
{
  return (size_t)d->few.blocks * 2 * LLS_CUDA_FEW_OUTPUTS * LLS_CUDA_FEW_ROWS *
         sizeof(float);
}

/* Sets up the kernel for prompts on Hopper; LLS_CUDA_HOPPER=0 disables it, for
 * comparison. */
static int set_up_hopper(struct lls_cuda_device *d)
{
  bool hopper = d->properties.major == 9 && is_set("LLS_CUDA_HOPPER", true);
  int rc = hopper ? lls_cuda_attention_hopper_setup(&hopper) : 0;
  d->hopper_blocks = hopper ? (uint32_t)d->properties.multiProcessorCount : 0;
  return rc;
}

static int set_up_kernels(struct lls_cuda_device *d, struct lls_error *err)
{
  int rc = lls_cuda_attention_setup();
  if (rc == 0)
    rc = set_up_hopper(d);
  if (rc == 0)
    rc = lls_cuda_experts_setup();
  if (rc == 0)
    rc = (int)cudaMemsetAsync(d->few.finished, 0, d->few.blocks * sizeof *d->few.finished,
                              d->stream);
  if (rc == 0)
    rc = lls_cuda_few_setup(d->few.shared_bytes);
  if (rc == 0)
    rc = lls_cuda_codes_setup();
  return lls_cuda_check(rc, err, "loading kernels");
}

static int allocate(struct lls_cuda_device *d, struct lls_error *err)
{
  size_t rows = d->options.max_rows + LLS_CUDA_MOST_PADDING;
  size_t results = rows * sizeof *d->results;
  size_t room = lls_cuda_sample_room(d->options.max_rows, d->options.max_columns);
  const struct {
    void **out;
    size_t bytes;
    bool pinned;
  } buffers[] = {
      {(void **)&d->staging[0], LLS_CUDA_STAGING, true},
      {(void **)&d->staging[1], LLS_CUDA_STAGING, true},
      {(void **)&d->unconverted[0], LLS_CUDA_STAGING, false},
      {(void **)&d->unconverted[1], LLS_CUDA_STAGING, false},
      {(void **)&d->entries_at, INPUT_BYTES, false},
      {(void **)&d->squares, rows * 2 * sizeof(float), false},
      {(void **)&d->angles, LLS_CUDA_ROPES * rows * LLS_CUDA_ROTARY_MAX * sizeof(float),
       false},
      {(void **)&d->states.states, state_bytes(d), false},
      {(void **)&d->states.finished, finished_bytes(d), false},
      {(void **)&d->few.parts, few_bytes(d), false},
      {(void **)&d->few.finished, d->few.blocks * sizeof *d->few.finished, false},
      {(void **)&d->results, results, true},
      {&d->sample_room, room, false},
  };
  int rc = 0;
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers && rc == 0; i++)
    rc = buffers[i].pinned ? lls_cuda_malloc_pinned(buffers[i].bytes, buffers[i].out)
                           : lls_cuda_malloc(buffers[i].bytes, buffers[i].out);
  d->entries_room = INPUT_BYTES / sizeof *d->entries_at;
  d->states.max_states = state_bytes(d) / sizeof(float);
  if (rc == 0 && (cudaMemsetAsync(d->states.finished, 0, finished_bytes(d), d->stream) !=
                      cudaSuccess ||
                  cudaMemsetAsync(d->sample_room, 0, room, d->stream) != cudaSuccess))
    rc = -EIO;
  d->count = calloc(d->options.max_columns + (size_t)1, sizeof *d->count);
  if (rc == 0 && d->count == NULL)
    rc = -ENOMEM;
  if (rc == 0)
    rc = lls_cuda_inputs_create(&d->inputs, INPUT_BYTES);
  if (rc == 0)
    rc = lls_cuda_inputs_create(&d->draws, INPUT_BYTES);
  if (rc == 0)
    rc = lls_cuda_inputs_create(&d->adapted.inputs, INPUT_BYTES);
  return rc == 0 ? 0
                 : lls_fail(err, rc, "no memory on %s for the working space",
                            d->properties.name);
}

static int open_gpu(struct lls_cuda_device *d, struct lls_error *err)
{
  int rc = find_gpu(d, err);
  if (rc == 0)
    rc = create_streams(d, err);
  if (rc == 0)
    rc = allocate(d, err);
  if (rc == 0)
    rc = lls_cuda_ops_create(&d->ops, err);
  if (rc == 0)
    rc = lls_cuda_products_create(&d->products, err);
  if (rc == 0)
    rc = set_up_kernels(d, err);
  return rc < 0 ? rc : lls_cuda_ranks_create(d, err);
}

int lls_cuda_create(const struct lls_device_options *options, struct lls_device **out,
                    struct lls_error *err)
{
  struct lls_cuda_device *d = calloc(1, sizeof *d);
  if (d == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the CUDA device");
  d->base = (struct lls_device){
      .ops = &lls_cuda_vtable,
      .has_own_memory = true,
      .asynchronous = true,
      .has_int8 = true,
      .extras = EXTRAS,
      .activation_type = options->numbers == LLS_F32 ? LLS_F32 : LLS_BF16,
  };
  d->options = *options;
  d->debug = is_set("LLS_CUDA_DEBUG", false);
  int rc = open_gpu(d, err);
  if (rc < 0) {
    lls_cuda_destroy(&d->base);
    return rc;
  }
  d->base.prepares = lls_cuda_times(d);
  *out = &d->base;
  return 0;
}
