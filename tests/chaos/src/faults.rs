//! What is to go wrong, and how often it did.

/// How bad one direction is. Shares are probabilities from 0 to 1 for each datagram, each drawn for itself.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// Share of datagrams that never arrive.
    pub loss: f64,
    /// Share that arrives twice.
    pub duplication: f64,
    /// Every datagram is this late, in microseconds.
    pub delay_us: u64,
    /// And up to this much later still, in microseconds: whoever draws less overtakes whoever drew more.
    pub jitter_us: u64,
    /// Share of datagrams that are later still.
    pub late: f64,
    /// By up to so much, in microseconds.
    pub late_us: u64,
    /// Share of datagrams that bring an old one along, chosen among the last [`Faults::HISTORY`].
    pub replay: f64,
    /// Share that arrives damaged: a bit turned, or cut short.
    pub corruption: f64,
    /// Longer ones are lost, all of them and without a word, as where the MTU is small and ICMP is dropped; 0: none is.
    pub swallows_above: usize,
}

impl Faults {
    /// Datagrams that are kept to be replayed.
    pub const HISTORY: usize = 256;

    /// A network that does nothing wrong.
    pub const NONE: Self = Self {
        loss: 0.0,
        duplication: 0.0,
        delay_us: 0,
        jitter_us: 0,
        late: 0.0,
        late_us: 0,
        replay: 0.0,
        corruption: 0.0,
        swallows_above: 0,
    };
}

/// Datagrams of one direction, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Came in.
    pub received: u64,
    /// Went out, copies and replays included.
    pub delivered: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Lost by a cut.
    pub cut: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Overtaken by one that came in later.
    pub reordered: u64,
    /// Old ones sent again.
    pub replayed: u64,
    /// Damaged.
    pub corrupted: u64,
}

impl Counters {
    /// Adds those of another lane.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.cut += other.cut;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.replayed += other.replayed;
        self.corrupted += other.corrupted;
    }
}

impl std::fmt::Display for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "received {}, delivered {}, lost {}, cut {}, duplicated {}, reordered {}, replayed {}, corrupted {}",
            self.received,
            self.delivered,
            self.lost,
            self.cut,
            self.duplicated,
            self.reordered,
            self.replayed,
            self.corrupted
        )
    }
}
