/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a shared object whole? The dynamic linker believes what a file says of itself and
 * follows it out of the mapping: a file that a compiler, a linker or cp is still writing
 * would end the process. This looks at all that dlopen goes by - headers, segments, the
 * dynamic table, strings, symbols, versions, relocations - and at nothing else: what the
 * code does is not to be seen here.
 */
#ifndef LLS_PLUGIN_ELF_H
#define LLS_PLUGIN_ELF_H

#include <stdbool.h>
#include <stddef.h>

/* NULL: nothing is wrong, or it is no ELF file of this machine, which the dynamic linker
 * says itself. Else what is, as in "the file ends before its contents". *padded becomes
 * true if pages of the code are empty: a file that looks whole is then to be looked at
 * again. */
const char *lls_elf_fault(const void *bytes, size_t size, bool *padded);

#endif
