// What stands before each kernel of a user's: docs/kernels.md tells of `hit` and `unit_digits`.

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

// The digits of the unit that lies `i` behind the one of `base`, the first digit first.
static inline void unit_digits(__global const ulong *base, ulong i, ulong *digits)
{
    ulong carry = i;
    for (int at = DIGITS - 1; at >= 0; at--) {
        ulong size = SIZES[at], digit = base[at] + carry % size;
        carry /= size;
        if (digit >= size) {
            digit -= size;
            carry++;
        }
        digits[at] = digit;
    }
}

#if HITS > 0
// This work item's unit is a hit, with a word that says more of it.
static inline void hit(__global uint *hits, uint word)
{
    uint at = atomic_inc(hits);
    if (at < HITS) {
        hits[1 + 2 * at] = (uint)get_global_id(0);
        hits[2 + 2 * at] = word;
    }
}
#endif

#define STARFARM_SUM(T, NAME) \
    __kernel void NAME(__global const T *values, ulong count, __global T *best, __global ulong *at) \
    { \
        ulong lane = get_global_id(0), lanes = get_global_size(0); \
        T sum = 0; \
        for (ulong i = lane; i < count; i += lanes) \
            sum += values[i]; \
        best[lane] = sum; \
        at[lane] = lane; \
    }
// What is no number loses against any: it is not equal to itself.
#define STARFARM_BEST(T, NAME, IS_BETTER) \
    __kernel void NAME(__global const T *values, ulong count, __global T *best, __global ulong *at) \
    { \
        ulong lane = get_global_id(0), lanes = get_global_size(0), where = lane; \
        T one = values[lane]; \
        for (ulong i = lane + lanes; i < count; i += lanes) { \
            T other = values[i]; \
            if (other IS_BETTER one || (one != one && other == other)) { \
                one = other; \
                where = i; \
            } \
        } \
        best[lane] = one; \
        at[lane] = where; \
    }
#define STARFARM_MIN(T, NAME) STARFARM_BEST(T, NAME, <)
#define STARFARM_MAX(T, NAME) STARFARM_BEST(T, NAME, >)

