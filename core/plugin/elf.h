/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a shared object is complete. The dynamic linker trusts a file's
 * headers and follows them out of the mapping: a file that a compiler, a linker or cp
 * is still writing would crash the process. This checks everything that dlopen reads -
 * headers, segments, the dynamic table, strings, symbols, versions, relocations - and
 * nothing else: it does not judge the code.
 */
#ifndef LLS_PLUGIN_ELF_H
#define LLS_PLUGIN_ELF_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns NULL if the file has no fault, or is not an ELF file for this machine, which
 * the dynamic linker reports itself. Otherwise returns the fault, such as "the file
 * ends before its contents". *padded becomes true if pages of the code are empty: a
 * file that looks complete should then be checked again later.
 */
const char *lls_elf_fault(const void *bytes, size_t size, bool *padded);

#endif
