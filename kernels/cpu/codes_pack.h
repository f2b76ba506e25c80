/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors into panels of codes; codes.c for weight.c. */
#ifndef LLS_CPU_CODES_PACK_H
#define LLS_CPU_CODES_PACK_H

#include "core/device/device.h"
#include "kernels/cpu/codes.h"

/* How a view of a quantised type is packed: as codes where a panel can keep its bits,
 * else in bf16. */
enum lls_packed lls_codes_packed(const struct lls_tensor_view *);
/* CODES4's table for weights of that type; what is no MXFP4 has -8..7. */
void lls_codes_table(enum lls_dtype, uint8_t table[16]);

/* Bytes that lls_codes_pack works in for that many columns. */
size_t lls_codes_scratch(size_t columns);
/* Row `row` of the view becomes output `output`, whose place in the panel is zero so far,
 * and which gets its scale. Numbers are quantised: to CODES8 or CODES4. */
void lls_codes_pack(struct lls_weight *, size_t output, const struct lls_tensor_view *,
                    size_t row, void *scratch);

#endif
