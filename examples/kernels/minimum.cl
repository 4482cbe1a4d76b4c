// Himmelblau's function, which has four minima of 0, at a point of a grid. A unit is a point, ACROSS of them in a row.
__kernel void minimum(__global const ulong *base, ulong count, __global uint *hits, __global ulong *below,
                      __global double *least)
{
    size_t i = get_global_id(0);
    ulong unit = base[0] + i;
    double x = FROM + (double)(unit % ACROSS) * STEP, y = FROM + (double)(unit / ACROSS) * STEP;
    double one = x * x + y - 11, two = x + y * y - 7, value = one * one + two * two;
    least[i] = value;
    below[i] = value < 10;
    if (value < 0.001)
        hit(hits, 0);
}
