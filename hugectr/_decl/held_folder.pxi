# SPDX-License-Identifier: Apache-2.0
# What is held of a folder of checkpoints, and let go of in one step that no interrupt divides.


cdef class HeldFolder:
    """See ``_core_folder.pyi``."""

    cdef vector[int] _handles  # the first is that of the folder
    cdef object _note
    cdef int _process
    cdef object __weakref__

    def __cinit__(self):
        self._process = os.getpid()

    def __dealloc__(self):
        for handle in self._handles:
            posix_close(handle)

    def is_mine(self):
        return self._process == os.getpid()

    def open(self, path, int flags, int mode=0o666, *, dir_fd=None):
        # Compiled code: a handle has this owner before anything looks for an interrupt.
        self._handles.reserve(self._handles.size() + 1)
        cdef int handle = os.open(path, flags, mode, dir_fd=dir_fd)
        self._handles.push_back(handle)
        return handle

    def close(self, int handle):
        for at in range(self._handles.size()):
            if self._handles[at] == handle:
                self._handles.erase(self._handles.begin() + <ptrdiff_t>at)
                posix_close(handle)
                return

    def locked(self, str note not None):
        self._note = note

    def let_go(self):
        # Compiled code, as above; and none of these calls waits.
        if self._handles.empty():
            return
        cdef int folder = self._handles.front()
        if self._note is not None and self._process == os.getpid():
            try:
                os.unlink(self._note, dir_fd=folder)
            except OSError:
                pass
            try:
                fcntl.flock(folder, fcntl.LOCK_UN)  # copies of the handle may live on
            except OSError:
                pass
        for handle in self._handles:
            posix_close(handle)
        self._handles.clear()
        self._note = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.let_go()
