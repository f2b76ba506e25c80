/* SPDX-License-Identifier: Apache-2.0 */
/* Packs tensors into panels of codes: what codes.c provides to weight.c. */
#ifndef LLS_CPU_CODES_PACK_H
#define LLS_CPU_CODES_PACK_H

#include "core/device/device.h"
#include "kernels/cpu/codes.h"

/* How a view of a quantised type is packed: as codes if a panel format keeps its bits,
 * else as bf16. */
enum lls_packed lls_codes_packed(const struct lls_tensor_view *);
/* Sets the table of a view's weights in that format: the numbers of its type's list, or
 * -8..7 if they are quantised. */
void lls_codes_table(const struct lls_tensor_view *, enum lls_packed, uint8_t table[16]);

/* Returns the bytes of scratch that lls_codes_pack needs for a row of `columns`. */
size_t lls_codes_scratch(size_t columns);
/* Packs row `row` of the view as output `output`, and sets the output's scale. Its
 * place in the panel must be zero. Unquantised values are quantised to CODES8 or
 * CODES4. */
void lls_codes_pack(struct lls_weight *, size_t output, const struct lls_tensor_view *,
                    size_t row, void *scratch);
/* Does the same for rows of Q4_0 and Q8_0 in formats that keep their codes. Returns
 * false, and has written nothing, if it can't (codes_direct.c). */
bool lls_codes_pack_directly(struct lls_weight *, size_t output,
                             const struct lls_tensor_view *, size_t row);

#endif
