/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AMX in plain C, for CPUs without it: included before a file of kernels/cpu (-include),
 * it takes the place of the compiler's intrinsics, so that the same source runs. What the
 * instructions refuse (a tile that is not configured, shapes that do not fit) ends the
 * program. After Intel's Architecture Instruction Set Extensions, chapter "AMX".
 */
#ifndef LLS_AMX_TILES_H
#define LLS_AMX_TILES_H

#include <immintrin.h>
#include <stddef.h>

void lls_amx_loadconfig(const void *config);
void lls_amx_release(void);
void lls_amx_zero(int tile);
void lls_amx_load(int tile, const void *from, size_t stride);
void lls_amx_store(int tile, void *to, size_t stride);
void lls_amx_dpbssd(int c, int a, int b);
void lls_amx_dpbf16ps(int c, int a, int b);

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbssd
#undef _tile_dpbf16ps
#define _tile_loadconfig(config)               lls_amx_loadconfig(config)
#define _tile_release()                        lls_amx_release()
#define _tile_zero(tile)                       lls_amx_zero(tile)
#define _tile_loadd(tile, from, stride)        lls_amx_load(tile, from, stride)
#define _tile_stream_loadd(tile, from, stride) lls_amx_load(tile, from, stride)
#define _tile_stored(tile, to, stride)         lls_amx_store(tile, to, stride)
#define _tile_dpbssd(c, a, b)                  lls_amx_dpbssd(c, a, b)
#define _tile_dpbf16ps(c, a, b)                lls_amx_dpbf16ps(c, a, b)

#endif
