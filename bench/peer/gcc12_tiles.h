/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before each of llama.cpp's C++ files (bench/peer/peer). gcc 12 takes the configuration
 * of AMX's tiles for 8 bytes instead of 64, and does not know that tiles are loaded from
 * memory: the stores before it may be left out, and llama.cpp's first product ends with
 * an illegal instruction. Its own intrinsics again, with what they read and write.
 */
#if defined __AMX_TILE__ && defined __GNUC__ && !defined __clang__ && __GNUC__ < 13
#include <immintrin.h>

#undef _tile_loadconfig
#undef _tile_loadd
#undef _tile_stored
#define _tile_loadconfig(config)                                                         \
  __asm__ volatile("ldtilecfg (%0)" : : "r"(config) : "memory")
#define _tile_loadd(tile, from, stride) PEER_TILE_LOAD(tile, from, stride)
#define _tile_stored(tile, to, stride)  PEER_TILE_STORE(tile, to, stride)
#define PEER_TILE_LOAD(tile, from, stride)                                               \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile                                    \
                   :                                                                     \
                   : "r"((const void *)(from)), "r"((long)(stride))                      \
                   : "memory")
#define PEER_TILE_STORE(tile, to, stride)                                                \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)"                                \
                   :                                                                     \
                   : "r"((void *)(to)), "r"((long)(stride))                              \
                   : "memory")
#endif
