// SHA-256 (FIPS 180-4). The key is the word `a` after 57 of 64 steps: the digest has the outcomes of the last four steps, and what
// these did to the words `a` of the four steps before can be taken back without knowing the message.

#define TURN(x, n) rotate(x, (V)(32 - n))
// As `bitselect(g, f, e)`, which LLVM splits in order to add the halves one by one.
#define CHOOSE(e, f, g) ((((f) ^ (g)) & (e)) ^ (g))
#define BIG0(a) (TURN(a, 2) ^ TURN(a, 13) ^ TURN(a, 22))
#define BIG1(e) (TURN(e, 6) ^ TURN(e, 11) ^ TURN(e, 25))
#define SMALL0(m) (TURN(m, 7) ^ TURN(m, 18) ^ (m >> 3))
#define SMALL1(m) (TURN(m, 17) ^ TURN(m, 19) ^ (m >> 10))
#define STEP(a, b, c, d, e, f, g, h, m, k) \
    h += m + k + CHOOSE(e, f, g) + BIG1(e); \
    d += h; \
    h += BIG0(a) + MAJORITY(a, b, c);
// The word of the step 16 later.
#define NEXT(m0, m1, m9, m14) m0 += SMALL0(m1) + m9 + SMALL1(m14);

static inline Keys key_of(PARAMS, Keys *next)
{
    V m0 = (V)(w0_0), m1 = (V)(w1_0), m2 = (V)(w2_0), m3 = (V)(w3_0);
    V m4 = (V)(w4_0), m5 = (V)(w5_0), m6 = (V)(w6_0), m7 = (V)(w7_0);
    V m8 = (V)(w8_0), m9 = (V)(w9_0), m10 = (V)(w10_0), m11 = (V)(w11_0);
    V m12 = (V)(w12_0), m13 = (V)(w13_0), m14 = (V)(w14_0), m15 = (V)(w15_0);
    V a = (V)(0x6a09e667u), b = (V)(0xbb67ae85u), c = (V)(0x3c6ef372u), d = (V)(0xa54ff53au);
    V e = (V)(0x510e527fu), f = (V)(0x9b05688cu), g = (V)(0x1f83d9abu), h = (V)(0x5be0cd19u);
    STEP(a, b, c, d, e, f, g, h, m0, 0x428a2f98u)
    STEP(h, a, b, c, d, e, f, g, m1, 0x71374491u)
    STEP(g, h, a, b, c, d, e, f, m2, 0xb5c0fbcfu)
    STEP(f, g, h, a, b, c, d, e, m3, 0xe9b5dba5u)
    STEP(e, f, g, h, a, b, c, d, m4, 0x3956c25bu)
    STEP(d, e, f, g, h, a, b, c, m5, 0x59f111f1u)
    STEP(c, d, e, f, g, h, a, b, m6, 0x923f82a4u)
    STEP(b, c, d, e, f, g, h, a, m7, 0xab1c5ed5u)
    STEP(a, b, c, d, e, f, g, h, m8, 0xd807aa98u)
    STEP(h, a, b, c, d, e, f, g, m9, 0x12835b01u)
    STEP(g, h, a, b, c, d, e, f, m10, 0x243185beu)
    STEP(f, g, h, a, b, c, d, e, m11, 0x550c7dc3u)
    STEP(e, f, g, h, a, b, c, d, m12, 0x72be5d74u)
    STEP(d, e, f, g, h, a, b, c, m13, 0x80deb1feu)
    STEP(c, d, e, f, g, h, a, b, m14, 0x9bdc06a7u)
    STEP(b, c, d, e, f, g, h, a, m15, 0xc19bf174u)
    NEXT(m0, m1, m9, m14)
    STEP(a, b, c, d, e, f, g, h, m0, 0xe49b69c1u)
    NEXT(m1, m2, m10, m15)
    STEP(h, a, b, c, d, e, f, g, m1, 0xefbe4786u)
    NEXT(m2, m3, m11, m0)
    STEP(g, h, a, b, c, d, e, f, m2, 0x0fc19dc6u)
    NEXT(m3, m4, m12, m1)
    STEP(f, g, h, a, b, c, d, e, m3, 0x240ca1ccu)
    NEXT(m4, m5, m13, m2)
    STEP(e, f, g, h, a, b, c, d, m4, 0x2de92c6fu)
    NEXT(m5, m6, m14, m3)
    STEP(d, e, f, g, h, a, b, c, m5, 0x4a7484aau)
    NEXT(m6, m7, m15, m4)
    STEP(c, d, e, f, g, h, a, b, m6, 0x5cb0a9dcu)
    NEXT(m7, m8, m0, m5)
    STEP(b, c, d, e, f, g, h, a, m7, 0x76f988dau)
    NEXT(m8, m9, m1, m6)
    STEP(a, b, c, d, e, f, g, h, m8, 0x983e5152u)
    NEXT(m9, m10, m2, m7)
    STEP(h, a, b, c, d, e, f, g, m9, 0xa831c66du)
    NEXT(m10, m11, m3, m8)
    STEP(g, h, a, b, c, d, e, f, m10, 0xb00327c8u)
    NEXT(m11, m12, m4, m9)
    STEP(f, g, h, a, b, c, d, e, m11, 0xbf597fc7u)
    NEXT(m12, m13, m5, m10)
    STEP(e, f, g, h, a, b, c, d, m12, 0xc6e00bf3u)
    NEXT(m13, m14, m6, m11)
    STEP(d, e, f, g, h, a, b, c, m13, 0xd5a79147u)
    NEXT(m14, m15, m7, m12)
    STEP(c, d, e, f, g, h, a, b, m14, 0x06ca6351u)
    NEXT(m15, m0, m8, m13)
    STEP(b, c, d, e, f, g, h, a, m15, 0x14292967u)
    NEXT(m0, m1, m9, m14)
    STEP(a, b, c, d, e, f, g, h, m0, 0x27b70a85u)
    NEXT(m1, m2, m10, m15)
    STEP(h, a, b, c, d, e, f, g, m1, 0x2e1b2138u)
    NEXT(m2, m3, m11, m0)
    STEP(g, h, a, b, c, d, e, f, m2, 0x4d2c6dfcu)
    NEXT(m3, m4, m12, m1)
    STEP(f, g, h, a, b, c, d, e, m3, 0x53380d13u)
    NEXT(m4, m5, m13, m2)
    STEP(e, f, g, h, a, b, c, d, m4, 0x650a7354u)
    NEXT(m5, m6, m14, m3)
    STEP(d, e, f, g, h, a, b, c, m5, 0x766a0abbu)
    NEXT(m6, m7, m15, m4)
    STEP(c, d, e, f, g, h, a, b, m6, 0x81c2c92eu)
    NEXT(m7, m8, m0, m5)
    STEP(b, c, d, e, f, g, h, a, m7, 0x92722c85u)
    NEXT(m8, m9, m1, m6)
    STEP(a, b, c, d, e, f, g, h, m8, 0xa2bfe8a1u)
    NEXT(m9, m10, m2, m7)
    STEP(h, a, b, c, d, e, f, g, m9, 0xa81a664bu)
    NEXT(m10, m11, m3, m8)
    STEP(g, h, a, b, c, d, e, f, m10, 0xc24b8b70u)
    NEXT(m11, m12, m4, m9)
    STEP(f, g, h, a, b, c, d, e, m11, 0xc76c51a3u)
    NEXT(m12, m13, m5, m10)
    STEP(e, f, g, h, a, b, c, d, m12, 0xd192e819u)
    NEXT(m13, m14, m6, m11)
    STEP(d, e, f, g, h, a, b, c, m13, 0xd6990624u)
    NEXT(m14, m15, m7, m12)
    STEP(c, d, e, f, g, h, a, b, m14, 0xf40e3585u)
    NEXT(m15, m0, m8, m13)
    STEP(b, c, d, e, f, g, h, a, m15, 0x106aa070u)
    NEXT(m0, m1, m9, m14)
    STEP(a, b, c, d, e, f, g, h, m0, 0x19a4c116u)
    NEXT(m1, m2, m10, m15)
    STEP(h, a, b, c, d, e, f, g, m1, 0x1e376c08u)
    NEXT(m2, m3, m11, m0)
    STEP(g, h, a, b, c, d, e, f, m2, 0x2748774cu)
    NEXT(m3, m4, m12, m1)
    STEP(f, g, h, a, b, c, d, e, m3, 0x34b0bcb5u)
    NEXT(m4, m5, m13, m2)
    STEP(e, f, g, h, a, b, c, d, m4, 0x391c0cb3u)
    NEXT(m5, m6, m14, m3)
    STEP(d, e, f, g, h, a, b, c, m5, 0x4ed8aa4au)
    NEXT(m6, m7, m15, m4)
    STEP(c, d, e, f, g, h, a, b, m6, 0x5b9cca4fu)
    NEXT(m7, m8, m0, m5)
    STEP(b, c, d, e, f, g, h, a, m7, 0x682e6ff3u)
    NEXT(m8, m9, m1, m6)
    STEP(a, b, c, d, e, f, g, h, m8, 0x748f82eeu)
#if MANY
    NEXT(m9, m10, m2, m7)
    STEP(h, a, b, c, d, e, f, g, m9, 0x78a5636fu)
    NEXT_KEYS({{g}})
#endif
    Keys keys = {{h}};
    return keys;
}

// The word `a` of four steps before, where `a` and `e` are a step's outcome and x, y and z the words `a` of the steps before it.
static inline uint earlier(uint a, uint e, uint x, uint y, uint z)
{
    uint big0 = rotate(x, 30u) ^ rotate(x, 19u) ^ rotate(x, 10u);
    return e - (a - big0 - bitselect(x, z, x ^ y));
}

static inline uint aim(const uint *w, __global const uint *digest)
{
    uint a64 = digest[0] - 0x6a09e667u, a63 = digest[1] - 0xbb67ae85u;
    uint a62 = digest[2] - 0x3c6ef372u, a61 = digest[3] - 0xa54ff53au;
    uint a60 = earlier(a64, digest[4] - 0x510e527fu, a63, a62, a61);
    uint a59 = earlier(a63, digest[5] - 0x9b05688cu, a62, a61, a60);
    uint a58 = earlier(a62, digest[6] - 0x1f83d9abu, a61, a60, a59);
    return earlier(a61, digest[7] - 0x5be0cd19u, a60, a59, a58);
}
