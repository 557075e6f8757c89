// SPDX-License-Identifier: Apache-2.0
// Preloaded: from starve(1) to starve(0) no thread gets memory but those that have the name of the
// one that called it, which are Python's: threads of the core have names of their own. The same
// happens, now and then, to a process that is at the end of its address space.
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

static char fed[16];
static volatile int on;
static volatile int refusals;

void starve(int yes) {
  prctl(PR_GET_NAME, fed);
  on = yes;
}

int refused(void) { return refusals; }

static int starved(void) {
  char name[16];
  if (!on) return 0;
  prctl(PR_GET_NAME, name);
  if (strncmp(name, fed, sizeof(name)) == 0) return 0;
  __atomic_fetch_add(&refusals, 1, __ATOMIC_RELAXED);
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t size) { return starved() ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return starved() ? NULL : __libc_calloc(count, size); }
void* realloc(void* old, size_t size) { return starved() ? NULL : __libc_realloc(old, size); }
void* memalign(size_t unit, size_t size) { return starved() ? NULL : __libc_memalign(unit, size); }
void* aligned_alloc(size_t unit, size_t size) { return memalign(unit, size); }
int posix_memalign(void** out, size_t unit, size_t size) {
  void* const found = memalign(unit, size);
  if (found == NULL) return ENOMEM;
  *out = found;
  return 0;
}
