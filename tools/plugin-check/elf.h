/* SPDX-License-Identifier: Apache-2.0 */
/* The dynamic symbols of a shared object, read from its file. */
#ifndef CHECK_ELF_H
#define CHECK_ELF_H

#include <stdbool.h>

/* Calls visit for every symbol that the file exports (`defined`) or imports. Returns 0,
 * or -errno if it is no ELF file for this machine. */
int elf_symbols(const char *path, void (*visit)(void *, const char *name, bool defined),
                void *context);

#endif
