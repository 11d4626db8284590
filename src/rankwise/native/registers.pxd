"""Loops that are compiled for wide registers as well, where the compiler can do this.

Their text adds up in an order that has nothing to do with the width of registers, so that wide
ones change the speed and not the result. Where it cannot, a function stays as it is.
"""

cdef extern from *:
    """
    #include <stdint.h>
    #if defined(__x86_64__) && defined(__GLIBC__) && __GNUC__ >= 12 && !defined(__clang__)
    #define ON_WIDE_REGISTERS \\
        __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
    #else
    #define ON_WIDE_REGISTERS
    #endif
    """
