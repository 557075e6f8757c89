// SPDX-License-Identifier: Apache-2.0
// Preloaded: after starve(least, most) requests for so many bytes are refused, but to threads that
// have the name of the one that called it, which are Python's: threads of the core have names of
// their own. starve(1, 0) ends it. The same happens, now and then, to a process that is at the end
// of its address space.
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

static char fed[16];
static volatile size_t least = 1, most = 0;
static volatile int refusals;

void starve(size_t from, size_t to) {
  prctl(PR_GET_NAME, fed);
  least = from;
  most = to;
}

int refused(void) { return refusals; }

static int starved(size_t size) {
  char name[16];
  if (size < least || size > most) return 0;
  prctl(PR_GET_NAME, name);
  if (strncmp(name, fed, sizeof(name)) == 0) return 0;
  if (strncmp(name, "jemalloc", 8) == 0) return 0;  // of pyarrow, which would end the process
  __atomic_fetch_add(&refusals, 1, __ATOMIC_RELAXED);
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t size) { return starved(size) ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) {
  return starved(count * size) ? NULL : __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) { return starved(size) ? NULL : __libc_realloc(old, size); }
void* memalign(size_t unit, size_t size) {
  return starved(size) ? NULL : __libc_memalign(unit, size);
}
void* aligned_alloc(size_t unit, size_t size) { return memalign(unit, size); }
int posix_memalign(void** out, size_t unit, size_t size) {
  void* const found = memalign(unit, size);
  if (found == NULL) return ENOMEM;
  *out = found;
  return 0;
}
