/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Algorithm 1 as it is printed, for comparison (victims = literal): the batch is all
 * urgent requests and all decodes; while it is too large, the request with the largest
 * slack leaves. Decodes leave for prompts, return as urgent requests and make others
 * leave: beyond a certain load the scheduler does little else.
 */
#include "accelgen.h"

#include <llmserve/policy/check.h>

void accelgen_literal(struct accelgen_member *b, uint32_t n, uint32_t tokens,
                      uint32_t free_units, struct lls_pol_heap *heap)
{
  uint64_t compute = 0, memory = 0, room = free_units;
  heap->n = 0;
  for (uint32_t i = 0; i < n; i++) {
    compute += b[i].tokens;
    memory += b[i].memory;
    heap->entries[heap->n++] = (struct lls_pol_heap_entry){
        .key = -b[i].slack, .tie = UINT64_MAX - b[i].id, .item = &b[i]};
  }
  lls_pol_heap_build(heap);
  while (heap->n > 0 && (compute > tokens || memory > room)) {
    struct accelgen_member *v = lls_pol_heap_pop(heap).item;
    v->out = true;
    v->preempted = memory > room && v->held > 0;
    LLS_POL_CHECK(compute >= v->tokens && memory >= v->memory);
    compute -= v->tokens;
    memory -= v->memory;
    room += v->preempted ? v->held : 0;
  }
}
