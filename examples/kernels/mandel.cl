// A tile of the Mandelbrot set. A unit is a tile of SIDE x SIDE pixels, ACROSS of them in a row; a pixel is how many of STEPS
// steps its point stays near, in 256 grades.
__kernel void tile(__global const ulong *base, ulong count, __global uchar *blocks)
{
    ulong unit = base[0] + get_global_id(0);
    __global uchar *pixels = blocks + get_global_id(0) * BLOCK;
    int left = (int)(unit % ACROSS) * SIDE, top = (int)(unit / ACROSS) * SIDE;
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            double re = LEFT + (left + x) * SCALE, im = TOP + (top + y) * SCALE;
            double a = 0, b = 0;
            int step = 0;
            while (step < STEPS && a * a + b * b <= 4) {
                double c = a * a - b * b + re;
                b = 2 * a * b + im;
                a = c;
                step++;
            }
            pixels[y * SIDE + x] = (uchar)(step * 255 / STEPS);
        }
    }
}
