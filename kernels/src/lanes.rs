//! A vector of 32-bit words, as the algorithms see it. The vectors of a processor live in `avx`;
//! here are the one-word vector and the bundle of several vectors.
//!
//! Everything is `#[inline(always)]`: the code must melt into the one function that switches the
//! processor's features on, or each addition would become a call.

/// Most words of a vector, bundles included.
pub(crate) const LANES_MAX: usize = 128;

/// `LANES` words that take the same steps side by side.
pub(crate) trait Lanes: Copy {
    /// Words in the vector, 1..=`LANES_MAX`.
    const LANES: usize;

    /// The same word in each lane.
    fn splat(word: u32) -> Self;
    /// The first `LANES` words of `from`; panics where there are fewer.
    fn load(from: &[u32]) -> Self;
    /// Writes the lanes to the front of `to`; panics where there is less room.
    fn store(self, to: &mut [u32]);
    /// Sum, modulo 2^32.
    fn add(self, other: Self) -> Self;
    /// Exclusive or.
    fn xor(self, other: Self) -> Self;
    /// And.
    fn and(self, other: Self) -> Self;
    /// Or.
    fn or(self, other: Self) -> Self;
    /// Not.
    fn not(self) -> Self;
    /// Each word turned left by `bits`, 1..=31; a constant once inlined.
    fn rotate_left(self, bits: u32) -> Self;
    /// Each word moved right by `bits`, 1..=31; a constant once inlined.
    fn shift_right(self, bits: u32) -> Self;
    /// The bit of each word's number: 1 moved left by so much, 0..=31.
    fn bit(self) -> Self;
    /// Not 0 if some lane is the same in both.
    fn matches(self, other: Self) -> u32;
    /// A bit for each lane, the first one's last: 1 where it is the same in both.
    fn equal(self, other: Self) -> u128;

    /// `yes` where the bit of `self` is 1, else `no`.
    #[inline(always)]
    fn select(self, yes: Self, no: Self) -> Self {
        no.xor(self.and(yes.xor(no)))
    }

    /// The bit that at least two of the three have.
    #[inline(always)]
    fn majority(self, y: Self, z: Self) -> Self {
        self.and(y).or(z.and(self.or(y)))
    }

    /// Parity of the three.
    #[inline(always)]
    fn parity(self, y: Self, z: Self) -> Self {
        self.xor(y).xor(z)
    }
}

impl Lanes for u32 {
    const LANES: usize = 1;

    #[inline(always)]
    fn splat(word: u32) -> Self {
        word
    }
    #[inline(always)]
    fn load(from: &[u32]) -> Self {
        from[0]
    }
    #[inline(always)]
    fn store(self, to: &mut [u32]) {
        to[0] = self;
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self & other
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self | other
    }
    #[inline(always)]
    fn not(self) -> Self {
        !self
    }
    #[inline(always)]
    fn rotate_left(self, bits: u32) -> Self {
        u32::rotate_left(self, bits)
    }
    #[inline(always)]
    fn shift_right(self, bits: u32) -> Self {
        self >> bits
    }
    #[inline(always)]
    fn bit(self) -> Self {
        1 << (self & 31)
    }
    #[inline(always)]
    fn matches(self, other: Self) -> u32 {
        u32::from(self == other)
    }
    #[inline(always)]
    fn equal(self, other: Self) -> u128 {
        u128::from(self == other)
    }
}

/// `SETS` independent vectors as one. A step of a digest waits for the step before it, so one vector
/// leaves most of the processor idle; several in turn hide that latency.
#[derive(Clone, Copy)]
pub(crate) struct Wide<T, const SETS: usize>([T; SETS]);

/// Methods that do to the vectors of a bundle, or of two or three side by side, what they do to vectors.
macro_rules! each {
    ($($method:ident of three)*) => {$(
        #[inline(always)]
        fn $method(mut self, y: Self, z: Self) -> Self {
            for (a, (y, z)) in self.0.iter_mut().zip(y.0.iter().zip(&z.0)) {
                *a = a.$method(*y, *z);
            }
            self
        }
    )*};
    ($($method:ident)*) => {$(
        #[inline(always)]
        fn $method(mut self, other: Self) -> Self {
            for (a, b) in self.0.iter_mut().zip(&other.0) {
                *a = a.$method(*b);
            }
            self
        }
    )*};
    ($($method:ident($($bits:ident)?))*) => {$(
        #[inline(always)]
        fn $method(mut self $(, $bits: u32)?) -> Self {
            for a in &mut self.0 {
                *a = a.$method($($bits)?);
            }
            self
        }
    )*};
}

impl<T: Lanes, const SETS: usize> Lanes for Wide<T, SETS> {
    const LANES: usize = {
        let lanes = SETS * T::LANES;
        assert!(lanes <= LANES_MAX);
        lanes
    };

    each!(add xor and or);
    each!(select of three majority of three parity of three);
    each!(not() bit() rotate_left(bits) shift_right(bits));

    #[inline(always)]
    fn splat(word: u32) -> Self {
        Wide([T::splat(word); SETS])
    }
    #[inline(always)]
    fn load(from: &[u32]) -> Self {
        let from = &from[..Self::LANES];
        let mut sets = [T::splat(0); SETS];
        for (set, part) in sets.iter_mut().zip(from.chunks_exact(T::LANES)) {
            *set = T::load(part);
        }
        Wide(sets)
    }
    #[inline(always)]
    fn store(self, to: &mut [u32]) {
        let to = &mut to[..Self::LANES];
        for (set, part) in self.0.iter().zip(to.chunks_exact_mut(T::LANES)) {
            set.store(part);
        }
    }
    #[inline(always)]
    fn matches(self, other: Self) -> u32 {
        let mut some = 0;
        for (a, b) in self.0.iter().zip(&other.0) {
            some |= a.matches(*b);
        }
        some
    }
    #[inline(always)]
    fn equal(self, other: Self) -> u128 {
        let mut lanes = 0;
        for (a, b) in self.0.iter().zip(&other.0).rev() {
            lanes = lanes << T::LANES | a.equal(*b);
        }
        lanes
    }
}
