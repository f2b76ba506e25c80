/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/peer/peer includes this file before each C++ file of llama.cpp. gcc 12's AMX
 * intrinsics declare only 8 of the 64 bytes of the tile configuration as read, and no
 * memory as read by tile loads. The compiler then drops the stores before them, and
 * llama.cpp's first product ends with an illegal instruction. Here are the same
 * intrinsics with the memory which they read and write.
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
